package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// diesWithParent says whether the system can end a child with the thread that started it.
const diesWithParent = true

// dieWithParent asks for it. A program that takes on the rights of its file's owner is excepted.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adopt makes descendants whose parents end children of this process. restore makes it as it was.
func adopt() (restore func(), ok bool) {
	before := Adopts()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return func() {}, before
	}
	return func() {
		if !before {
			_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		}
	}, true
}

// Adopts says whether this process is the one that orphans among its descendants come to.
func Adopts() bool {
	var is int32
	if unix.Getpid() == 1 {
		return true
	}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0)
	return errno == 0 && is != 0
}

// now is the time in the unit of the process table: hundredths of a second since the start of the system.
func now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano() / 10_000_000)
}

// onFirstThread says whether the caller's thread is the one that the process began with.
func onFirstThread() bool { return unix.Gettid() == unix.Getpid() }
