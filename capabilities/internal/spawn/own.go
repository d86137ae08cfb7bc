package spawn

import (
	"bytes"
	"context"
	"os"
	"sync"
)

// Output is what a command of the executor's own has printed, and how it ended.
type Output struct {
	Stdout, Stderr []byte // the beginnings, as much as was asked for
	More           bool   // standard output was longer; the command was ended for it
	Exit           Exit
}

// RunOwn runs a command of the executor itself, such as one that prints a credential: in the executor's
// environment and directory, as its user, without what Configure has set. No label of another
// child gets into it, and it ends with the executor as other children do. When ctx is done, or more than
// most bytes came, it is killed with all its descendants. What it leaves running otherwise, an
// agent with a key perhaps, ends with the keeper; of one that is nil or not open at once. The
// error is that of the start, or of ctx.
func (k *Keeper) RunOwn(ctx context.Context, argv []string, most int) (Output, error) {
	g, last := k.ownGroup()
	if !last {
		defer g.Close(0)
	}
	if err := ctx.Err(); err != nil {
		return Output{}, err
	}
	var mu sync.Mutex
	var out, errs bytes.Buffer
	full := make(chan struct{})
	take := func(into *bytes.Buffer, full chan struct{}) Sink {
		return func(p []byte) {
			mu.Lock()
			defer mu.Unlock()
			room := most - into.Len()
			into.Write(p[:min(len(p), room)])
			if len(p) > room && full != nil {
				close(full)
				full = nil
			}
		}
	}
	p, err := g.Start(Command{Argv: argv, Env: os.Environ(), Stdout: take(&out, full), Stderr: take(&errs, nil)})
	if err != nil {
		return Output{}, err
	}
	select {
	case <-p.Done():
	case <-full:
		p.Kill()
	case <-ctx.Done():
		p.Kill()
		return Output{}, ctx.Err()
	}
	o := Output{Exit: p.Wait()}
	mu.Lock()
	defer mu.Unlock()
	select {
	case <-full:
		o.More = true
	default:
	}
	o.Stdout, o.Stderr = bytes.Clone(out.Bytes()), bytes.Clone(errs.Bytes())
	return o, nil
}

// ownGroup is the group of the commands of the executor's own; lasting says that it ends with the keeper,
// and not with the command.
func (k *Keeper) ownGroup() (g *Group, lasting bool) {
	if k == nil {
		return NewGroup(), false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.labels == nil { // not open
		return NewGroup(), false
	}
	if k.own == nil {
		k.own = k.newGroup()
		k.own.launch = nil
		if k.ownForker != nil {
			k.own.thread = k.ownForker
		}
	}
	return k.own, true
}
