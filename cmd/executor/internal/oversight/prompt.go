package oversight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/agent-executor/executor/executor/approval"
)

// Prompt asks on the terminal that the program runs on, one question after another, until ctx is done. Without a
// terminal, both to read from and to write to, nobody is asked here.
func (t *Oversight) Prompt(ctx context.Context) {
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
		return
	}
	in := newLines(os.Stdin)
	if in == nil {
		return
	}
	p := &prompter{desk: t.desk, in: in, out: os.Stderr}
	if err := p.run(ctx); err != nil && ctx.Err() == nil {
		t.zap.Warn("nobody is asked on the terminal any more; use executor approvals", zap.Error(err))
	}
}

// lines reads lines from a terminal. wait returns when one is there, when changed is closed, or ctx is done.
type lines interface {
	// flush forgets what was typed before it was asked for.
	flush()
	// wait returns a line without its end; ok is false when there is none. The error is the end of the terminal.
	wait(ctx context.Context, changed <-chan struct{}) (line string, ok bool, err error)
}

type prompter struct {
	desk *approval.Desk
	in   lines
	out  io.Writer
}

func (p *prompter) run(ctx context.Context) error {
	for {
		items, changed := p.desk.Watch()
		if len(items) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err := p.ask(ctx, items[0]); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// ask asks about one call until it is decided, here or elsewhere.
func (p *prompter) ask(ctx context.Context, item approval.Item) error {
	fmt.Fprintf(p.out, "\n--- a call waits for you ---\n")
	printItem(p.out, item, time.Now())
	choices := "[y] run it once, [s] also in this session, [a] always, [n] deny"
	if item.OnceOnly {
		choices = "[y] run it, [n] deny"
	}
	p.in.flush()
	fmt.Fprintf(p.out, "%s: ", choices)
	for {
		items, changed := p.desk.Watch()
		if !waitsStill(items, item.ID) {
			fmt.Fprintf(p.out, "\n%s was decided elsewhere, or is not wanted any more\n", item.ID)
			return nil
		}
		line, ok, err := p.in.wait(ctx, changed)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if !ok {
			continue
		}
		a := approval.Answer{By: "terminal"}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			a.Allow = true
		case "s", "session":
			a.Allow, a.Scope = true, approval.Session
		case "a", "always":
			a.Allow, a.Scope = true, approval.Always
		case "n", "no":
		default:
			fmt.Fprintf(p.out, "%s: ", choices)
			continue
		}
		if err := p.desk.Decide(item.ID, a); err != nil && !errors.Is(err, approval.ErrUnknown) {
			fmt.Fprintf(p.out, "%v\n%s: ", err, choices)
			continue
		}
		return nil
	}
}

func waitsStill(items []approval.Item, id string) bool {
	for _, i := range items {
		if i.ID == id {
			return true
		}
	}
	return false
}
