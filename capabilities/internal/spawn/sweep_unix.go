//go:build unix

package spawn

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// sweep ends what earlier executors of this instance have left running. Proof is the label, or the
// control group. Where there are no labels it is the marker, of a process whose parent is marked too, or
// is one that orphans go to.
func sweep(i instance, l *labels, labelled bool, grace time.Duration) Report {
	t := &tree{marker: i.id + "-", known: map[int]uint64{}}
	above := ancestors()
	t.exempt = above
	t.cgroup = i.old()
	t.copied = func(r row) bool { return r.ppid > 1 && !above[r.ppid] }
	if labelled {
		t.ours, t.instance = l.all, l.all
		t.copied = func(row) bool { return true }
	}
	var report Report
	seen := map[int]uint64{}
	t.note = func(r row) {
		if seen[r.pid] != r.start {
			seen[r.pid] = r.start
			report.Ended = append(report.Ended, Member{PID: r.pid, Command: commandOf(r.pid)})
		}
	}
	if len(t.scan()) > 0 {
		report.Survivors = terminate(t, grace)
	}
	t.cgroup.remove()
	report.Ended = slices.DeleteFunc(report.Ended, func(m Member) bool {
		return slices.ContainsFunc(report.Survivors, func(s Survivor) bool { return s.PID == m.PID })
	})
	for _, r := range processTable() {
		if start, ours := seen[r.pid]; !r.dead && r.pid != os.Getpid() && (!ours || start != r.start) && marked(r.pid, t.marker) {
			report.LeftAlone = append(report.LeftAlone, Member{PID: r.pid, Command: commandOf(r.pid)})
		}
	}
	return report
}

// ancestors are the processes that this one descends from.
func ancestors() map[int]bool {
	above := map[int]bool{}
	for pid := os.Getppid(); pid > 1 && !above[pid]; {
		above[pid] = true
		r, ok := rowOf(pid)
		if !ok {
			break
		}
		pid = r.ppid
	}
	return above
}

// endStrays ends the descendants that no group has ended: those that came to the executor as orphans and
// had rid themselves of everything else that speaks of where they come from. A child has a session of its
// own and so have its descendants, which tells them from processes that others started here.
func endStrays(k *Keeper) []Survivor {
	t := &tree{marker: k.id + "-", known: map[int]uint64{}, since: k.since}
	if k.means.Labels {
		t.proof = labelProof(k.labels, k.labels.all)
	}
	t.cgroup = k.cgroup
	self, session := os.Getpid(), ownSession()
	if k.means.Adoption {
		for _, r := range processTable() {
			if !r.dead && r.ppid == self && r.sid != session && r.start >= k.since {
				t.known[r.pid] = r.start
			}
		}
	}
	if len(t.scan()) == 0 {
		return nil
	}
	return terminate(t, strayGrace)
}

// identity says which file an open one is.
func identity(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return formatIdentity(uint64(st.Dev), uint64(st.Ino))
}
