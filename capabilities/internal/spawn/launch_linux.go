package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// How a child gets limits that the executor does not have itself. They belong to a process, not to a
// thread, so that they cannot be set before the fork as the label is: the executor would have them too.
// Set after the start they would come too late for what the child has started by then. So the child
// stops at its exec, before the first instruction of its program, as it would under a debugger; it is
// given what it is to have, and let go. That costs one more change of threads, and only when limits are
// configured. It is held by the thread that started it, which has to do all of this. A program with the rights of its
// file's owner does not get those when it is started directly by an executor that is not root; through
// a shell it does.

// canHold says whether children can be held on this system.
const canHold = true

// supported says whether the policy can be kept on this system.
func supported(Launch) error { return nil }

// resources are the limits by name. Two are missing: that on file locks is the label, and that on
// resident memory limits nothing.
func resources() map[string]int {
	return map[string]int{
		"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA,
		"fsize": unix.RLIMIT_FSIZE, "memlock": unix.RLIMIT_MEMLOCK, "msgqueue": unix.RLIMIT_MSGQUEUE,
		"nice": unix.RLIMIT_NICE, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC,
		"rtprio": unix.RLIMIT_RTPRIO, "rttime": unix.RLIMIT_RTTIME, "sigpending": unix.RLIMIT_SIGPENDING,
		"stack": unix.RLIMIT_STACK,
	}
}

// prepare asks for what the start itself has to do. It is called on the thread that starts the child.
func (l *launch) prepare(attr *syscall.SysProcAttr) {
	if l == nil {
		return
	}
	attr.Ptrace = l.held
	l.user.use(attr)
	if l.user != nil && l.user.uid != 0 {
		// Ambient capabilities go through a change of the user and an exec, and may be the very ones by
		// which the executor can change it.
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
}

// settle gives a child that was just started what it is to have, and lets it go if it is held. It is
// called on the same thread. After an error the child has been killed; it is still to be waited for.
func (l *launch) settle(pid int, home *cgroup) error {
	if l == nil || !l.held {
		l.aside(func() { l.place(pid, home) })
		if l == nil {
			return nil
		}
		var err error
		l.aside(func() { err = l.limit(pid) })
		if errors.Is(err, unix.ESRCH) { // it may have ended
			return nil
		}
		return err
	}
	if gone := waitStopped(pid); gone {
		return nil // its exit status says how
	}
	var err error
	l.aside(func() {
		err = l.limit(pid)
		l.place(pid, home)
	})
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if detach := unix.PtraceDetach(pid); detach != nil && !errors.Is(detach, unix.ESRCH) {
		_ = unix.Kill(pid, unix.SIGKILL) // it would stand still for ever
		err = errors.Join(err, fmt.Errorf("let the child go: %w", detach))
	}
	return err
}

// place does what needs the rights of the executor itself.
func (l *launch) place(pid int, home *cgroup) {
	if l.byThread() { // else it was started there
		home.add(pid)
	}
	adjustOOMScore(pid, l.oomScore())
}

// waitStopped waits until the child has stopped at its exec. Its end, should it come first, is left to
// whoever waits for that.
func waitStopped(pid int) (gone bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		const stopped, trapped = 5, 4 // CLD_STOPPED, CLD_TRAPPED of <signal.h>
		return err != nil || info.Code != stopped && info.Code != trapped
	}
}

func (l *launch) limit(pid int) error {
	if l.Nice != 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, l.Nice); err != nil {
			return fmt.Errorf("set the niceness %d: %w; one below the executor's own, and any for another user, takes CAP_SYS_NICE", l.Nice, err)
		}
	}
	all := resources()
	for _, limit := range l.Limits {
		value := unix.Rlimit{Cur: limit.Value, Max: limit.Value}
		if err := unix.Prlimit(pid, all[limit.Name], &value, nil); err != nil {
			return fmt.Errorf("set the limit %s: %w; one above the executor's own, and any for another user, takes CAP_SYS_RESOURCE", limit, err)
		}
	}
	return nil
}

// adjustOOMScore makes the system choose the child before the executor when memory runs out: step more
// than the executor's own. Best effort: it is a matter of whom to blame, not of correctness.
func adjustOOMScore(pid, step int) {
	if step == 0 {
		return // it inherits the executor's
	}
	var buf [16]byte
	score, err := strconv.Atoi(string(bytes.TrimSpace(readProc(buf[:], os.Getpid(), "oom_score_adj"))))
	if err != nil {
		return
	}
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte(strconv.Itoa(min(score+step, 1000))))
	_ = unix.Close(fd)
}
