package atomicfile

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// busyTime is how long a written file is waited for. It is a matter of a program that is between its fork
// and its exec, which takes milliseconds.
const (
	busyTime        = 2 * time.Second
	busyTimeInPlace = 50 * time.Millisecond // of one that others may have open as well
)

// awaitStarts waits until nobody has the file open for writing. We have closed it; but each program that was
// just being started has a copy of every descriptor until it has become that program, and a file that is open
// for writing cannot be executed: a script that was just written would be "busy" for a moment. The system
// grants a lease to read on exactly the files that can be executed. Best effort: it may refuse one
// for other reasons.
func (w *writer) awaitStarts(limit time.Duration) {
	conn, err := w.handle.SyscallConn()
	if err != nil {
		return
	}
	fd := -1
	err = conn.Control(func(dir uintptr) {
		fd, err = unix.Openat(int(dir), w.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil || fd < 0 {
		return // of no use to anybody, or gone already
	}
	defer unix.Close(fd)
	lease := func(kind int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
		return err
	}
	deadline := time.Now().Add(limit)
	for pause := 100 * time.Microsecond; ; pause *= 2 {
		err := lease(unix.F_RDLCK)
		if err == nil {
			_ = lease(unix.F_UNLCK)
			return
		}
		if !errors.Is(err, unix.EAGAIN) || time.Now().Add(pause).After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}
