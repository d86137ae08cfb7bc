package spawn

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/agent-executor/executor/capabilities/internal/sandbox"
)

// errNotConfined is why a child is not started: never is one started outside of the sandbox that is
// configured.
var errNotConfined = errors.New("the sandbox that is configured is not open, and nothing is started without it")

// confine looks whether children can be confined as a policy says.
func (l *launch) confine(p sandbox.Policy) error {
	p.UID, p.GID, p.Other = os.Getuid(), os.Getgid(), false
	if u := l.user; u != nil {
		p.UID, p.GID, p.Home, p.Other = int(u.uid), int(u.gid), u.home, u.changes()
	}
	box, err := sandbox.New(p)
	if err != nil {
		return err
	}
	l.box = box
	return nil
}

// confined says whether children are started in a sandbox.
func (l *launch) confined() bool { return l != nil && l.box != nil }

// byThread says whether the thread that starts children is confined itself.
func (l *launch) byThread() bool { return l.confined() && l.box.ByThread() }

// trial makes a sandbox like that of the children for a child that is started to see whether it can be.
func (l *launch) trial() (thread *forker, stop func(), err error) {
	if l.box == nil {
		return nil, func() {}, nil
	}
	box := l.box.Another()
	if thread, err = openBox(box, "try-"+rand.Text()); err != nil {
		return nil, nil, err
	}
	l.box = box
	return thread, func() {
		thread.stop()
		_ = box.Close()
	}, nil
}

// openBox opens a sandbox and starts the thread that starts what is in it.
func openBox(box *sandbox.Sandbox, name string) (*forker, error) {
	if err := box.Open(name); err != nil {
		return nil, err
	}
	thread, err := startForker(box.Enter)
	if err != nil {
		return nil, errors.Join(err, box.Close())
	}
	return thread, nil
}

// openSandbox is openBox for the children of the keeper. It is called with the lock held.
func (k *Keeper) openSandbox(name string) error {
	thread, err := openBox(k.launch.box, name)
	if err != nil {
		return fmt.Errorf("%w; nothing is started", err)
	}
	k.forker, k.ownForker = thread, k.forker
	return nil
}

// aside runs f on another thread when the one that starts children may do little, and waits for it.
func (l *launch) aside(f func()) {
	if !l.byThread() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// enclose puts a command that was looked up into the sandbox.
func (c *Command) enclose(l *launch, file string, argv []string, script *os.File) (string, []string, error) {
	number := 3 + len(c.Extra)
	if script != nil {
		number++
	}
	start, err := l.box.Rewrite(sandbox.Start{Argv: argv, Dir: c.Dir, Env: c.Env, FileNumber: number})
	if err != nil {
		return "", nil, err
	}
	if start.Argv[0] != argv[0] {
		file = start.Argv[0]
	}
	c.Dir, c.Env, c.filter = start.Dir, start.Env, start.File
	return file, start.Argv, nil
}

// Scratch is a directory for files that are for the executor and its children both; empty for the system's
// own.
func (k *Keeper) Scratch() string {
	if l := k.policy(); l.confined() {
		return l.box.Scratch()
	}
	return ""
}
