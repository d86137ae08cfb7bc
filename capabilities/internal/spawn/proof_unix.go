//go:build unix

package spawn

import "os"

// proof is what makes a process a member of a tree besides its session, its process group and its
// parent. The zero value is for a system without labels: there the marker in the environment counts.
type proof struct {
	ours     func(label uint64) bool // the labels of members; nil where there are none
	instance func(label uint64) bool // those of the members of all trees of this executor
	// copied says that a process with the marker and without a label is none of ours: it was given a copy
	// of the environment, as `systemctl --user import-environment` makes one. nil: it is ours.
	copied func(r row) bool

	cgroup *cgroup      // all in it are members
	exempt map[int]bool // and these are none whatever speaks for it
	note   func(r row)  // told of each member once; nil for nobody
}

func labelProof(l *labels, ours func(label uint64) bool) proof {
	p := proof{ours: ours, instance: l.all}
	if Adopts() { // what has lost its parent is our own child then
		self := os.Getpid()
		p.copied = func(r row) bool { return r.ppid != self }
	}
	return p
}

// claims looks into a process for what makes it a member.
func (t *tree) claims(r row, self, session int) bool {
	if t.ours != nil {
		// A label decides, also over the descriptors: a child that has not become its program yet has
		// for a moment all that is open here, and its own label already.
		if label := labelOf(r, session); t.ours(label) {
			return true
		} else if t.instance(label) {
			return false
		}
	}
	return holds(r.pid, t.pipes) || (t.copied == nil || !t.copied(r)) && marked(r.pid, t.marker)
}

// exempts says whether one of the processes is not to be ended.
func (t *tree) exempts(pids map[int]bool) bool {
	if pids[os.Getpid()] {
		return true
	}
	for pid := range t.exempt {
		if pids[pid] {
			return true
		}
	}
	return false
}
