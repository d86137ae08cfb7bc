//go:build unix && !linux

package spawn

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// canHold says whether children can be held on this system.
const canHold = false

// supported says whether the policy can be kept on this system.
func supported(l Launch) error {
	switch {
	case len(l.Limits) > 0:
		return errors.New("limits: this system cannot set those of another process; set them for the executor, whose children inherit them")
	case l.OOMScore != 0:
		return errors.New("oom score adjustment: this system has none; leave it out")
	}
	return nil
}

func resources() map[string]int { return nil }

func (l *launch) prepare(attr *syscall.SysProcAttr) {
	if l != nil {
		l.user.use(attr)
	}
}

// settle sets the niceness of a child that runs already.
func (l *launch) settle(pid int, _ *cgroup) error {
	if l != nil && l.Nice != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, l.Nice) // best effort: it may have ended
	}
	return nil
}
