package spawn

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A child inherits which signals are ignored and which are blocked. An executor that was
// started with nohup, by a script's `&` or by a supervisor has some of those, and its
// commands would have them as well: no interrupt would end them, and a pipe's end would
// be an error message.

// heed lets children have every signal's usual effect: one that has a handler here is
// back to that at an exec, one that is ignored is not. That nobody listens to the handler
// is as good as ignoring it.
func heed() {
	for n := range ignored() {
		signal.Notify(make(chan os.Signal, 1), n)
	}
}

// ignored are the signals that the executor ignores.
func ignored() map[syscall.Signal]struct{} {
	set := map[syscall.Signal]struct{}{}
	status := readFile(make([]byte, 8<<10), "/proc/self/status")
	_, rest, _ := bytes.Cut(status, []byte("\nSigIgn:"))
	hex, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 64)
	for n := syscall.Signal(1); n < 32; n++ { // those of the C library and the real-time ones are not ours
		if mask&(1<<(n-1)) != 0 {
			set[n] = struct{}{}
		}
	}
	return set
}

// unblocked runs do, which starts a child, with no signal blocked on this thread, which
// is locked: the child has the mask that its thread has.
func unblocked(do func()) {
	var now, none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &now); err != nil || now == none {
		do()
		return
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil)
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &now, nil) }()
	do()
}
