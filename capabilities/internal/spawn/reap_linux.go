package spawn

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// reapPause is how long an ended process is left to whoever may be waiting for it. Those who wait do it
// all the time, so that one which is still there afterwards is an orphan.
const reapPause = time.Second

// ReapOrphans waits for the processes that the system hands over to an executor that runs as process 1
// of a container, or as a child subreaper: descendants whose parents have ended. Nobody else would, and
// they would stay as zombies. It returns when ctx is done. It never takes the exit status of a child
// that somebody waits for.
func ReapOrphans(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	var before map[int]uint64
	for {
		if len(before) == 0 {
			select {
			case <-ended:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(reapPause):
		case <-ctx.Done():
			return
		}
		before = reap(before)
	}
}

// reap waits for the zombies among our children that were there at the last look, and returns the others.
func reap(before map[int]uint64) map[int]uint64 {
	fresh := map[int]uint64{}
	self := os.Getpid()
	for _, r := range processTable() {
		if !r.dead || r.ppid != self {
			continue
		}
		if start, seen := before[r.pid]; seen && start == r.start {
			_, _ = unix.Wait4(r.pid, nil, unix.WNOHANG, nil)
		} else {
			fresh[r.pid] = r.start
		}
	}
	return fresh
}
