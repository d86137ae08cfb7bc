package spawn

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// A label is a number that the system keeps for every process and hands on to its children, whatever
// they do to their environment, session, pipes and parents: the soft limit of a resource that no
// system counts any more (see label_linux.go). It proves descent, where an environment variable may
// also have been copied. From high to low: the instance (32 bits), a block (22), a number in the block
// (8). A group has whole blocks, so that a label also says which group it is of. 0 is no label.
const (
	labelNumberBits = 8
	labelBlockBits  = 22
	labelLowBits    = labelNumberBits + labelBlockBits
)

// labels hands out the labels of one instance. Its methods may be called concurrently.
type labels struct {
	instance uint32 // not 0
	blocks   atomic.Uint32
	numbers  atomic.Pointer[stamped] // a while ago
}

// stamped is a numbering and when that was.
type stamped struct {
	numbering
	when time.Time
}

// numbersAge is how old a numbering may be to serve a start. The older it is, the more processes are
// looked at that were there before; to take it anew costs more than to keep it.
const numbersAge = time.Second

// before is how far the system had come in its numbering a moment ago: what is started from now on is
// later.
func (l *labels) before() numbering {
	if n := l.numbers.Load(); n != nil && time.Since(n.when) < numbersAge {
		return n.numbering
	}
	n := &stamped{numbered().counted(), time.Now()}
	l.numbers.Store(n)
	return n.numbering
}

// newLabels begins somewhere, so that what an earlier executor left over has other labels.
func newLabels(instance uint32) *labels {
	l := &labels{instance: max(instance, 1)}
	l.blocks.Store(random32())
	return l
}

func random32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

// block is the next block of labels: its first one.
func (l *labels) block() uint64 {
	n := uint64(l.blocks.Add(1)) & (1<<labelBlockBits - 1)
	return uint64(l.instance)<<labelLowBits | n<<labelNumberBits
}

// all says whether a label is one of this instance.
func (l *labels) all(label uint64) bool { return uint32(label>>labelLowBits) == l.instance }

// nextLabel is the label of the next process of the group.
func (g *Group) nextLabel() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	const size = 1 << labelNumberBits
	if g.issued%size == 0 {
		g.blocks = append(g.blocks, g.labels.block())
	}
	label := g.blocks[len(g.blocks)-1] + uint64(g.issued%size)
	g.issued++
	return label
}

// labelled says whether a label is one of the group.
func (g *Group) labelled() func(label uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	blocks := make(map[uint64]bool, len(g.blocks))
	for _, b := range g.blocks {
		blocks[b] = true
	}
	return func(label uint64) bool { return blocks[label&^(1<<labelNumberBits-1)] }
}
