package control

import (
	"os"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// deepest is how many generations of processes are looked at: more than anybody nests.
const deepest = 64

// startedHere reports whether the process that has connected descends from this one, as
// far as the system says; one whose parent has ended belongs to this one where it adopts
// orphans. One that has ended since counts as such: who asks waits for the answer, and a
// child that it left its connection to may be of this one.
func startedHere(p cli.Peer) bool { return descends(p, os.Getpid(), parentOf) }

// descends is startedHere for a system whose process table is parent.
func descends(p cli.Peer, self int, parent func(pid int) (int, parentage)) bool {
	if p.PID == self || p.PID <= 0 {
		return false // 0: it is outside of what this process can see
	}
	pid := p.PID
	for again, depth := 0, 0; depth < deepest; depth++ {
		if pid <= 1 {
			return false
		}
		next, is := parent(pid)
		switch {
		case is == parentUnknown:
			return false
		case is == parentGone && (pid == p.PID || again == 3):
			return true
		case is == parentGone: // it ended while it was looked at; its child has another parent now
			pid = p.PID
			again, depth = again+1, 0
			continue
		}
		if next == self {
			return true
		}
		pid = next
	}
	return true
}

// parentage is whether a process's parent is known.
type parentage int

const (
	parentKnown   parentage = iota
	parentUnknown           // the system does not say
	parentGone              // there is no such process
)
