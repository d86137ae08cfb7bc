package spawn

import (
	"errors"
	"io/fs"
	"syscall"
)

// canHold says whether children can be held on this system.
const canHold = false

// supported says whether the policy can be kept on this system.
func supported(l Launch) error {
	switch {
	case l.RunAs != nil:
		return errors.New("run as: not supported on Windows; run the executor as that user")
	case len(l.Limits) > 0, l.Nice != 0, l.OOMScore != 0:
		return errors.New("limits, nice and oom score adjustment: not supported on Windows; leave them out")
	}
	return nil
}

func resources() map[string]int { return nil }

func (l *launch) prepare(*syscall.SysProcAttr) {}

func (l *launch) settle(int, *cgroup) error { return nil }

func ownerOf(fs.FileInfo) (uid, gid uint32, ok bool) { return 0, 0, false }
