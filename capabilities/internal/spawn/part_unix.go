//go:build unix

package spawn

import (
	"maps"
	"time"

	"golang.org/x/sys/unix"
)

// Moment is a time as the system's process table counts it: the start of what a long-lived child does
// for one request.
type Moment uint64

// Now is this moment. Processes that were started in the same hundredth of a second count as later.
func Now() Moment { return Moment(now()) }

// Left are processes of a tree that were alive at some time. Those they start later belong to them.
type Left map[int]uint64 // start times by pid

// Leave says which processes of the tree, besides the child itself, are alive now.
func (p *Process) Leave() (Left, []Member) {
	left := Left{}
	var list []Member
	root := p.tree.root()
	for _, r := range p.tree.scan() {
		if r.pid != root.pid {
			left[r.pid] = r.start
			list = append(list, Member{PID: r.pid, Command: commandOf(r.pid)})
		}
	}
	return left, list
}

// Part is a part of a child's tree, without the child itself: what was started since a moment and is
// neither one of those left before it nor started by one of them. Its methods may be called
// concurrently.
type Part struct{ tree *tree }

// Since is the part of the tree that was started since a moment.
func (p *Process) Since(m Moment, but Left) *Part {
	p.tree.mu.Lock()
	defer p.tree.mu.Unlock()
	top := p.tree.roots[0]
	t := &tree{
		marker: p.tree.marker, pipes: p.tree.pipes, proof: p.tree.proof,
		roots: []root{top}, since: max(uint64(m), p.tree.since), known: map[int]uint64{}, spared: maps.Clone(but), partial: true,
	}
	t.exempt = maps.Clone(t.exempt)
	if t.exempt == nil {
		t.exempt = map[int]bool{}
	}
	t.exempt[top.pid] = true
	return &Part{t}
}

// Members lists what is alive of the part.
func (x *Part) Members() []Member {
	var list []Member
	for _, r := range x.tree.scan() {
		list = append(list, Member{PID: r.pid, Command: commandOf(r.pid)})
	}
	return list
}

// Interrupt sends SIGINT, and SIGCONT since a stopped process takes no signal.
func (x *Part) Interrupt() { x.tree.tell(unix.SIGINT, unix.SIGCONT) }

// Terminate ends the part: SIGTERM, the grace, SIGKILL. It returns when nothing is left, with what
// could not be ended.
func (x *Part) Terminate(grace time.Duration) []Survivor { return terminate(x.tree, grace) }

// root is the child itself.
func (t *tree) root() root {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.roots[0]
}
