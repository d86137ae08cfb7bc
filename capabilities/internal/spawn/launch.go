package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities/internal/sandbox"
)

// Launch is how the children of a keeper are started, all of them and whatever a command says: as whom,
// within which limits, and through what. The zero value starts them as they are. Descendants inherit it.
type Launch struct {
	// RunAs is the user they run as; nil is the executor's own. It takes root, or CAP_SETUID, CAP_SETGID
	// and CAP_KILL; with Limits also CAP_SYS_RESOURCE, which root lacks in many a container. That the user
	// may enter the workspaces is the administrator's matter.
	RunAs *RunAs
	// Limits are set for each child before its first instruction. Linux only.
	Limits []Limit
	// Nice is the niceness, -20 to 19; 0 leaves it as the executor's. Unix only.
	Nice int
	// OOMScore is how much more than the executor a child is to blame when memory runs out, in the
	// system's own unit and up to its highest, 1000; 0 is 500, a negative one is nothing. Linux only.
	OOMScore int
	// Prefix are the words of a program to start each command with, such as a sandbox: its words, then the
	// command's. The program is looked for in the executor's PATH; the command's own program is then for
	// it to find. It has to hand on descriptors 0 to 2, and for a script of more than 127 KiB one more.
	Prefix []string
	// Hook may change each start, after Prefix; its error becomes that of the start. It is called once
	// for each, from several goroutines at once, and waited for.
	Hook func(*Launching) error
	// Sandbox is what commands may do; nil is all that their user may. It takes Open: a child of a keeper that is not
	// open is not started.
	Sandbox *sandbox.Policy
	// Mask, when set, makes for each stream of output what changes the secrets in it, those of the child's environment
	// too; see Masker.
	Mask func(env []string) Masker
}

// Launching is what is about to be started, for a hook to change.
type Launching struct {
	Argv []string // a first word that was changed is looked for in the executor's PATH
	Dir  string   // the working directory; empty for the executor's own
	Env  []string // the whole environment, as NAME=value, but for what marks the child
}

// launch is a Launch whose words were looked up. A nil one is the zero Launch. It does not change.
type launch struct {
	Launch
	user    *otherUser       // nil: the executor's own
	program string           // that of the prefix, by its path
	held    bool             // children stop at their start until they have their limits
	box     *sandbox.Sandbox // nil: none
}

// resolve looks up what the policy names. Its errors name the field and the remedy.
func (l Launch) resolve() (*launch, error) {
	r := &launch{Launch: l}
	r.Limits, r.Prefix = slices.Clone(l.Limits), slices.Clone(l.Prefix)
	if l.Nice < -20 || l.Nice > 19 {
		return nil, fmt.Errorf("nice %d: want -20 to 19", l.Nice)
	}
	if l.OOMScore > 1000 {
		return nil, fmt.Errorf("oom score adjustment %d: want at most 1000, which is the first to be ended", l.OOMScore)
	}
	if err := supported(l); err != nil {
		return nil, err
	}
	for _, limit := range l.Limits {
		if err := limit.check(); err != nil {
			return nil, err
		}
	}
	if len(l.Prefix) > 0 {
		program, err := exec.LookPath(l.Prefix[0])
		if err == nil {
			program, err = filepath.Abs(program)
		}
		if err != nil {
			return nil, fmt.Errorf("launch prefix: %w; install it, name it by its path, or give each word of the prefix as an element of its own", err)
		}
		r.program = program
	}
	if l.RunAs != nil {
		a, err := l.RunAs.resolve()
		if err != nil {
			return nil, err
		}
		r.user = a
	}
	if l.Sandbox != nil {
		if err := r.confine(*l.Sandbox); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Configure sets how all children are started from now on. It is called before the first is, and before
// Open. What cannot be done here is an error now and not one of each start: a program is started
// as all others will be, but without Prefix and Hook, and ended.
func (k *Keeper) Configure(l Launch) error {
	r, err := l.resolve()
	if err != nil {
		return err
	}
	adjusts := len(r.Limits) > 0 || r.Nice != 0
	r.held = (adjusts || r.byThread()) && canHold
	if adjusts || r.user != nil || r.held {
		if err := r.try(); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opened {
		return errors.New("configure children: some may be running already; do it before Open")
	}
	k.launch = r
	return nil
}

// try starts a shell that waits, and ends it.
func (l *launch) try() error {
	const shell = "/bin/sh"
	if _, err := os.Stat(shell); errors.Is(err, fs.ErrNotExist) {
		return nil // which says nothing
	}
	bare := *l
	bare.Prefix, bare.Hook, bare.box = nil, nil, nil
	start := func() (*Process, error) {
		g := NewGroup()
		g.launch = &bare
		return g.Start(Command{Argv: []string{shell, "-c", "read x"}, Dir: string(filepath.Separator), Input: true})
	}
	p, err := start()
	if err != nil && bare.held {
		// Some systems forbid what holds a child; then it is not held, and the error is of what is left.
		l.held, bare.held = false, false
		p, err = start()
	}
	if err != nil {
		var e *StartError
		if errors.As(err, &e) {
			err = e.Err
		}
		return l.explain(err)
	}
	defer p.group.Close(0)
	if survivors := p.Terminate(time.Second); len(survivors) > 0 {
		return fmt.Errorf("run as %s: this process may not end what it starts: %s; give it CAP_KILL, or run it as root", l.user, survivors[0].Reason)
	}
	return nil
}

// explain says what to do about a start that failed.
func (l *launch) explain(err error) error {
	if l.user != nil && l.user.changes() && errors.Is(err, fs.ErrPermission) && os.Getuid() != 0 {
		return fmt.Errorf("run as %s: %w; run this program as root, or give it CAP_SETUID, CAP_SETGID and CAP_KILL", l.user, err)
	}
	return fmt.Errorf("start a program in the way that is configured: %w", err)
}

// rewrite puts the prefix in front of a command and asks the hook. It says whether another program is
// named than before.
func (l *launch) rewrite(what *Launching) (changed bool, err error) {
	if l == nil {
		return false, nil
	}
	before := what.Argv[0]
	if len(l.Prefix) > 0 {
		what.Argv = append(slices.Clone(l.Prefix), what.Argv...)
	}
	if l.Hook != nil {
		what.Env = slices.Clone(what.Env)
		if err := l.Hook(what); err != nil {
			return false, err
		}
		if len(what.Argv) == 0 || what.Argv[0] == "" {
			return false, errors.New("the launch hook left no command")
		}
	}
	return len(l.Prefix) > 0 || what.Argv[0] != before, nil
}

// lookup finds the program of a command that was rewritten.
func (l *launch) lookup(name, dir string) (string, error) {
	if len(l.Prefix) > 0 && name == l.Prefix[0] {
		return l.program, nil
	}
	return lookPath(name, dir, os.Getenv("PATH"))
}

// oomScore is what is added to the executor's own.
func (l *launch) oomScore() int {
	if l == nil || l.OOMScore == 0 {
		return oomStep
	}
	return max(l.OOMScore, 0)
}

// oomStep keeps the executor from being ended before what it has started.
const oomStep = 500

// policy is how children are started; nil for as they are.
func (k *Keeper) policy() *launch {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.launch
}

// words say what is in force, for a person.
func (l *launch) words() []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if l == nil {
		return nil
	}
	if l.user != nil {
		add("commands run as %s", l.user)
	}
	if len(l.Limits) > 0 {
		texts := make([]string, len(l.Limits))
		for i, limit := range l.Limits {
			texts[i] = limit.String()
		}
		add("commands are limited to %s", strings.Join(texts, ", "))
	}
	if l.Nice != 0 {
		add("commands have the niceness %d", l.Nice)
	}
	if (len(l.Limits) > 0 || l.Nice != 0) && !l.held {
		add("limits and niceness are set a moment after the start of a command: what it starts within that moment can be without")
	}
	if l.oomScore() != oomStep && runtime.GOOS == "linux" {
		add("commands have an OOM score of %d above the executor's", l.oomScore())
	}
	if len(l.Prefix) > 0 {
		add("commands are started through %s", l.program)
	}
	if l.Hook != nil {
		add("commands are started through a hook")
	}
	if l.box != nil {
		list = append(list, l.box.Words()...)
	}
	return list
}
