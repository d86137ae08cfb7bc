//go:build unix

package spawn

import (
	"errors"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killWait is how long a process may take to go after SIGKILL before it counts as a survivor: one in an
// uninterruptible system call goes when that returns.
const killWait = 2 * time.Second

// row is one line of the system's process table.
type row struct {
	pid, ppid, pgid, sid int
	start                uint64 // when it was started, in the table's own unit
	dead                 bool   // a zombie
}

// root is a child whose descendants are looked for.
type root struct {
	pid    int
	start  uint64
	alone  bool // reaped, and nobody is left in its process group: its number may be somebody else's now
	reaped bool
}

// tree is a child and its descendants, or several of them.
type tree struct {
	marker string
	pipes  []uint64 // inodes of the output pipes
	proof

	mu    sync.Mutex
	roots []root
	since uint64         // no member was started before
	known map[int]uint64 // members seen so far, by pid, with their start times
	// judged: who was started before and is not known is none. Zero: all are to be looked at.
	judged numbering

	spared  Left // they and their descendants are no members
	partial bool // it is a part of another tree, which has the roots

	ending sync.Mutex // one terminate at a time
}

func newTree(pid int, m mark, pumps []*pump) *tree {
	t := &tree{marker: m.marker, known: map[int]uint64{}}
	if m.label != 0 {
		t.proof = labelProof(m.labels, func(label uint64) bool { return label == m.label })
		t.judged = m.before
	}
	r := root{pid: pid}
	if line, ok := rowOf(pid); ok { // not reaped yet, so it is there even if it has ended
		r.start = line.start
	}
	t.since = r.start
	t.roots = []root{r}
	for _, u := range pumps {
		if inode := inodeOf(u.file); inode != 0 {
			t.pipes = append(t.pipes, inode)
		}
	}
	return t
}

// joinTrees makes one tree of all that was ever started through a group: list are the processes that it
// remembers. What is left of the others is known by what they have in common, the labels, the control
// group or a part of the marker, so it is looked for from the first start on.
func joinTrees(g *Group, list []*Process) *tree {
	t := &tree{marker: g.id, known: map[int]uint64{}}
	g.mu.Lock()
	t.since = g.since
	maps.Copy(t.known, g.left)
	g.mu.Unlock()
	if labelsWork() {
		t.proof = labelProof(g.labels, g.labelled())
	}
	t.cgroup = g.cgroup
	for _, p := range list {
		p.tree.mu.Lock()
		t.roots = append(t.roots, p.tree.roots...)
		maps.Copy(t.known, p.tree.known)
		p.tree.mu.Unlock()
		t.pipes = append(t.pipes, p.tree.pipes...)
	}
	return t
}

// reaped notes that the child has been waited for: from now on its pid is held only by its group.
func (t *tree) reaped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.roots[0].reaped = true
	t.refresh()
}

// lingers says whether members of the child's process group are left after its end.
func (t *tree) lingers() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh()
	return !t.roots[0].alone
}

func (t *tree) refresh() {
	for i := range t.roots {
		if r := &t.roots[i]; r.reaped && !r.alone {
			r.alone = errors.Is(unix.Kill(-r.pid, 0), unix.ESRCH)
		}
	}
}

// seen are the members that were found and are still alive. It looks for no others.
func (t *tree) seen() map[int]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	dropDead(t.known)
	return maps.Clone(t.known)
}

// dropDead drops the ended ones from processes that were seen, given with their start times by pid.
func dropDead(known map[int]uint64) {
	for pid, start := range known {
		if r, ok := rowOf(pid); !ok || r.start != start || r.dead {
			delete(known, pid)
		}
	}
}

// seenAlive says whether one that was found before is still alive. It costs much less than to look for all.
func (t *tree) seenAlive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, start := range t.known {
		if r, ok := rowOf(pid); ok && r.start == start && !r.dead {
			return true
		}
	}
	return false
}

func (t *tree) knows(r row) bool {
	if start, ok := t.known[r.pid]; ok && start == r.start {
		return true
	}
	for _, root := range t.roots {
		if root.alone {
			continue
		}
		if r.pid == root.pid && r.start == root.start || (r.sid == root.pid || r.pgid == root.pid) && r.start >= root.start {
			return true
		}
	}
	return false
}

// members lists what is alive besides the child itself.
func (t *tree) members() []Member {
	var list []Member
	for _, r := range t.scan() {
		if r.pid != t.roots[0].pid || r.start != t.roots[0].start {
			list = append(list, Member{PID: r.pid, Command: commandOf(r.pid)})
		}
	}
	return list
}

func (t *tree) interrupt() { t.tell(unix.SIGINT) }

// tell sends signals to every member once. The child's process group gets them in one call, so that
// nothing it is just forking is missed: a shell takes a SIGINT for its own only when what it waits for
// died of it too. The others get them one by one, found by two looks since they fork as well.
func (t *tree) tell(signals ...unix.Signal) {
	told := map[int]uint64{}
	groups := t.groups()
	for group := range groups {
		for _, sig := range signals {
			_ = unix.Kill(-group, sig)
		}
	}
	for range 2 {
		for _, r := range t.scan() {
			if told[r.pid] == r.start || groups[r.pgid] {
				continue
			}
			told[r.pid] = r.start
			for _, sig := range signals {
				_ = r.signal(sig)
			}
		}
	}
}

// groups are the process groups that can be named by number: those whose leader, our child, is there.
func (t *tree) groups() map[int]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	groups := map[int]bool{}
	if t.partial { // there are others in the group
		return groups
	}
	for _, root := range t.roots {
		if r, ok := rowOf(root.pid); ok && !root.reaped && r.start == root.start && r.pgid == root.pid {
			groups[root.pid] = true
		}
	}
	return groups
}

// terminate ends every member and returns those that would not go.
func terminate(t *tree, grace time.Duration) []Survivor {
	t.ending.Lock()
	defer t.ending.Unlock()
	if grace > 0 && t.ask(grace) {
		return nil
	}
	return t.kill()
}

// ask sends SIGTERM and says whether all members have gone within the grace. Processes started after it
// are left alone until the grace is over: they may be cleaning up.
func (t *tree) ask(grace time.Duration) bool {
	t.tell(unix.SIGTERM, unix.SIGCONT) // the second since a stopped process takes no signal
	return poll(grace, func() bool { return !t.seenAlive() && len(t.scan()) == 0 })
}

// kill stops the members until no new one turns up, since what is stopped cannot fork, and kills them.
func (t *tree) kill() []Survivor {
	denied := map[int]error{}
	stopped := map[int]uint64{}
	if inside := t.cgroup.pids(); !t.exempts(inside) {
		t.cgroup.kill()
	}
	for range 1000 { // ends when a round finds nothing new; the bound is for a system gone mad
		fresh := false
		for _, r := range t.scan() {
			if stopped[r.pid] != r.start {
				stopped[r.pid] = r.start
				fresh = true
				_ = r.signal(unix.SIGSTOP)
			}
		}
		if !fresh {
			break
		}
	}
	var left []row
	poll(killWait, func() bool {
		left = t.scan()
		stuck := true
		for _, r := range left {
			err := r.signal(unix.SIGKILL)
			if errors.Is(err, unix.EPERM) {
				denied[r.pid] = err
			} else {
				stuck = false
			}
		}
		return stuck // nothing left, or nothing we may signal
	})
	var survivors []Survivor
	for _, r := range left {
		reason := "still there after SIGKILL"
		if denied[r.pid] != nil {
			reason = "not permitted to signal it"
		}
		survivors = append(survivors, Survivor{Member{PID: r.pid, Command: commandOf(r.pid)}, reason})
	}
	return survivors
}

// poll asks at growing intervals, up to 50 ms, until the answer is yes or the time is over.
func poll(limit time.Duration, done func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := 200 * time.Microsecond; ; pause = min(pause+pause/4, 50*time.Millisecond) {
		if done() {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}

// attributes give the child a session of its own, and with it a process group and no terminal.
func attributes(c Command) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if c.Terminal != nil {
		attr.Setctty = true // descriptor 0, which is the terminal
	}
	return attr
}

func exitOf(state *os.ProcessState) Exit {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}

func busy(err error) bool   { return errors.Is(err, unix.ETXTBSY) }
func tooBig(err error) bool { return errors.Is(err, unix.E2BIG) }

func executableSuffixes(string) []string { return []string{""} }

// inodeOf identifies a pipe; both ends have the same number.
func inodeOf(file *os.File) uint64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}

// signalInner signals the command itself, a child of what was started.
func (p *Process) signalInner(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return errors.New("no such signal")
	}
	if r, ok := rowOf(p.pid); !ok || r.dead || r.ppid != p.proc.Pid { // its parent has not waited for it: the number is its own
		return os.ErrProcessDone
	}
	if err := unix.Kill(p.pid, number); errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	} else if err != nil {
		return err
	}
	return nil
}
