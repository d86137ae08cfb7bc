package spawn

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	if p.Mode != sandbox.Auto && p.Mode != "" {
		return l.confineBy(p)
	}
	var missing []string
	for _, mode := range []string{sandbox.Bubblewrap, sandbox.Landlock} {
		p.Mode = mode
		err := l.confineBy(p)
		if err == nil {
			return nil
		}
		missing = append(missing, err.Error())
	}
	return fmt.Errorf("no sandbox works here: %s", strings.Join(slices.Compact(missing), "; "))
}

// confineBy is confine for one mode. A command is started to see whether it works.
func (l *launch) confineBy(p sandbox.Policy) error {
	box, err := sandbox.New(p)
	if err != nil {
		return err
	}
	l.box = box
	if err := l.tryBox(box.Another()); err != nil {
		l.box = nil
		return fmt.Errorf("sandbox %s does not work here: %w", p.Mode, err)
	}
	return nil
}

// tryBox starts a command in a sandbox, and is content when that does what it is to do.
func (l *launch) tryBox(box *sandbox.Sandbox) error {
	thread, err := openBox(box, "try-"+rand.Text())
	if err != nil {
		return err
	}
	defer func() {
		thread.stop()
		_ = box.Close()
	}()
	bare := *l
	bare.Prefix, bare.Hook, bare.Mask, bare.box = nil, nil, nil, box
	g := NewGroup()
	g.launch, g.thread = &bare, thread
	defer g.Close(0)
	var said []byte
	p, err := g.Start(Command{Argv: []string{"/bin/sh", "-c", "exit 7"}, Dir: string(filepath.Separator), Env: []string{"PATH=" + os.Getenv("PATH")}, Merge: true, Stdout: func(b []byte) {
		if len(said) < 1000 {
			said = append(said, b...)
		}
	}})
	if err != nil {
		var e *StartError
		if errors.As(err, &e) {
			err = e.Err
		}
		return err
	}
	if exit := p.Wait(); exit.Code != 7 {
		line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("a command in it ended with exit code %d: %s", exit.Code, shorten(line))
	}
	return nil
}

// confined says whether children are started in a sandbox.
func (l *launch) confined() bool { return l != nil && l.box != nil }

// byThread says whether the thread that starts children is confined itself.
func (l *launch) byThread() bool { return l.confined() && l.box.ByThread() }

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
	k.forker, k.ownForker = nil, k.forker
	thread, err := openBox(k.launch.box, name)
	if err != nil {
		return fmt.Errorf("%w; nothing is started", err)
	}
	k.forker = thread
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
	c.Dir, c.Env, c.boxed, c.told = start.Dir, start.Env, start.Files, start.Told
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

// toldTime is how long a sandbox may take to tell which process is the command.
const toldTime = 5 * time.Second

// toldPID is the process that the sandbox has told; otherwise when it ended before.
func toldPID(told *os.File, otherwise int) int {
	_ = told.SetReadDeadline(time.Now().Add(toldTime))
	text, _ := bufio.NewReader(told).ReadBytes('}')
	var info struct {
		PID int `json:"child-pid"`
	}
	if err := json.Unmarshal(text, &info); err != nil || info.PID <= 0 {
		return otherwise
	}
	return info.PID
}
