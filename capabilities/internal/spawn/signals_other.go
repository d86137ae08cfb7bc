//go:build !linux

package spawn

import (
	"os"
	"os/signal"
	"syscall"
)

// heed lets children have the usual effect of the signals that the executor was started
// to ignore: one that has a handler here is back to that at an exec.
func heed() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

func unblocked(do func()) { do() }
