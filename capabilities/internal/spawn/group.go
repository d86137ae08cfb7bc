package spawn

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Marker is the environment variable by which descendants are recognised.
const Marker = "EXECUTOR_SPAWN_ID"

// Group owns processes: everything started through it lives no longer than it does. All methods may be
// called concurrently; whoever made the group ends it with Close.
type Group struct {
	id      string // random, the common part of the markers of its processes
	counter atomic.Uint64

	mu       sync.Mutex
	closed   bool
	starting sync.WaitGroup
	trees    map[*Process]struct{} // until nothing of it is left
	since    uint64                // no child or descendant was started before; 0 before the first
	left     map[int]uint64        // seen alive in trees that are forgotten: start times by pid
	leftMost int                   // when there are more, the ended ones are dropped

	keeper   *Keeper // nil for none
	launch   *launch // how its processes are started
	thread   *forker // starts them; nil for any thread
	labels   *labels
	blocks   []uint64 // of labels, by their first; what was issued of all of them
	issued   uint64
	cgroup   *cgroup // of all its processes; nil before the first, and where there is none
	homeless bool    // there is none
}

// NewGroup makes an empty group. It starts nothing.
func NewGroup() *Group {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	return &Group{id: hex.EncodeToString(id[:]), trees: map[*Process]struct{}{}, labels: newLabels(random32())}
}

// Start starts a command: in a session and process group of its own, without a controlling terminal
// (unless it is given one). The error is a *StartError or ErrClosed.
func (g *Group) Start(c Command) (*Process, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, ErrClosed
	}
	g.starting.Add(1)
	g.mu.Unlock()
	defer g.starting.Done()
	g.prune()
	seal()

	m := mark{marker: g.id + "." + strconv.FormatUint(g.counter.Add(1), 10) + ".", label: g.nextLabel(), labels: g.labels, before: g.labels.before()}
	p, err := start(g, c, m)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Processes lists those that are running or have left something running, in no order.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*Process, 0, len(g.trees))
	for p := range g.trees {
		list = append(list, p)
	}
	return list
}

// Close ends every process of the group and all their descendants, also those left over by commands
// that have long returned: SIGTERM, the grace, SIGKILL. It returns when they are gone and no goroutine
// of the group is left, with those that could not be ended. A second call waits for the first one's
// work and finds nothing to do.
func (g *Group) Close(grace time.Duration) []Survivor {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.starting.Wait()

	list := g.Processes()
	survivors := terminate(joinTrees(g, list), grace)
	for _, p := range list {
		p.abandon(survivors)
		p.release()
	}
	g.leaveHome()
	g.cgroup.remove()
	return survivors
}

// prune forgets the processes of which nothing is left.
func (g *Group) prune() {
	for _, p := range g.Processes() {
		select {
		case <-p.ended:
			if !p.tree.lingers() {
				g.forget(p)
			}
		default:
		}
	}
}

func (g *Group) remember(p *Process) {
	g.mu.Lock()
	g.trees[p] = struct{}{}
	if g.since == 0 || p.tree.since < g.since {
		g.since = p.tree.since
	}
	g.mu.Unlock()
}

// forget drops a process. What was seen of its tree is kept for Close: it may have left the child's
// process group, and be alive.
func (g *Group) forget(p *Process) {
	known := p.tree.seen()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.trees, p)
	if len(known) == 0 {
		return
	}
	if g.left == nil {
		g.left = map[int]uint64{}
	}
	maps.Copy(g.left, known)
	if len(g.left) > g.leftMost {
		dropDead(g.left)
		g.leftMost = 2*len(g.left) + 64
	}
}

// start makes the pipes, starts the child and the goroutines that belong to it.
func start(g *Group, c Command, m mark) (_ *Process, err error) {
	file, argv, script, err := c.program(g.launch)
	if err != nil {
		return nil, err
	}
	p := &Process{
		group:   g,
		command: describe(c),
		exited:  make(chan struct{}),
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
	}
	var theirs []io.Closer // the child's ends, ours to close once it has them
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			p.closePipes()
		}
	}()
	if script != nil {
		theirs = append(theirs, script)
	}
	for _, f := range c.boxed {
		theirs = append(theirs, f)
	}
	if c.told != nil {
		defer c.told.Close()
	}

	files, theirs, err := p.open(c, theirs)
	if err != nil {
		return nil, c.failure(argv[0], err)
	}
	files = append(files, c.Extra...)
	if script != nil {
		files = append(files, script)
	}
	files = append(files, c.boxed...)
	attr := &os.ProcAttr{
		Dir:   c.Dir,
		Env:   childEnv(c, m.marker),
		Files: files,
		Sys:   attributes(c),
	}
	proc, labelled, err := g.fork(file, argv, attr, m.label)
	for wait := time.Millisecond; err != nil && busy(err) && wait < 200*time.Millisecond; wait *= 2 {
		// A program that was written a moment ago is still open for writing in a child that is
		// between its fork and its exec; that takes milliseconds.
		time.Sleep(wait)
		proc, labelled, err = g.fork(file, argv, attr, m.label)
	}
	if !labelled {
		m.label = 0
	}
	if err != nil {
		return nil, c.failure(argv[0], g.launch.reason(c.Dir, bare(err)))
	}
	p.proc = proc
	if p.pid = proc.Pid; c.told != nil {
		for _, f := range c.boxed {
			_ = f.Close() // now: the end of what is told is to be seen
		}
		p.pid = toldPID(c.told, proc.Pid)
	}
	p.tree = newTree(proc.Pid, m, p.pumps)
	g.remember(p)
	for _, u := range p.pumps {
		go u.run(c.Follow)
	}
	go p.wait()
	return p, nil
}

// seal keeps what the executor itself inherited (a launcher's sockets and logs, signals to be ignored)
// from its children. Go opens everything close-on-exec, so once is enough.
var seal = sync.OnceFunc(func() {
	closeInheritedOnExec()
	heed()
})

// open fills descriptors 0 to 2 of the child and makes the pumps behind them.
func (p *Process) open(c Command, theirs []io.Closer) ([]*os.File, []io.Closer, error) {
	if c.Terminal != nil {
		return []*os.File{c.Terminal, c.Terminal, c.Terminal}, theirs, nil
	}
	null, err := nullDevice()
	if err != nil {
		return nil, theirs, err
	}
	theirs = append(theirs, null)
	files := []*os.File{null, null, null}
	if c.Stdin != nil {
		files[0] = c.Stdin
	} else if c.Input {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, theirs, err
		}
		p.stdin = w
		theirs = append(theirs, r)
		files[0] = r
	}
	for i, sink := range []Sink{c.Stdout, c.Stderr} {
		if i == 1 && c.Merge {
			files[2] = files[1]
			break
		}
		if sink == nil {
			continue
		}
		r, w, err := outputPipe()
		if err != nil {
			return nil, theirs, err
		}
		theirs = append(theirs, w)
		files[i+1] = w
		p.pumps = append(p.pumps, newPump(r, p.group.masked(c, sink)))
	}
	return files, theirs, nil
}

// childEnv puts the marker in front and the working directory's name behind. Inside a child of another
// executor both markers are kept, so that each finds its own.
func childEnv(c Command, marker string) []string {
	if outer := os.Getenv(Marker); outer != "" {
		marker = outer + "," + marker
	}
	env := make([]string, 0, len(c.Env)+2)
	env = append(env, Marker+"="+marker)
	for _, entry := range c.Env {
		if !strings.HasPrefix(entry, Marker+"=") {
			env = append(env, entry)
		}
	}
	if c.Dir != "" {
		env = append(env, "PWD="+c.Dir) // keeps the name of a directory reached through a link
	}
	return lastWins(env)
}

func lastWins(env []string) []string {
	at := make(map[string]int, len(env))
	out := env[:0]
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue
		}
		if i, seen := at[name]; seen {
			out[i] = entry
			continue
		}
		at[name] = len(out)
		out = append(out, entry)
	}
	return out
}

// describe is the command as it is shown in lists.
func describe(c Command) string {
	if c.Script != "" {
		return shorten(c.Script)
	}
	return shorten(strings.Join(c.Argv, " "))
}

// shorten makes one line of at most 200 characters.
func shorten(s string) string {
	const limit = 200
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Member is one process of a tree.
type Member struct {
	PID     int
	Command string // its command line, shortened to 200 characters
}

// Survivor is a process that could not be ended.
type Survivor struct {
	Member
	Reason string
}

func (s Survivor) String() string { return fmt.Sprintf("%d (%s): %s", s.PID, s.Command, s.Reason) }

var errGone = errors.New("process has ended")
