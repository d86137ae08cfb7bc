package spawn

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
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
		if !anyEnded() { // almost always: those who wait are quick
			before = nil
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
		if anyEnded() {
			before = reap(before)
		}
	}
}

// reap waits for the zombies among our children that were there at the last look, and returns the others.
func reap(before map[int]uint64) map[int]uint64 {
	fresh := map[int]uint64{}
	self := os.Getpid()
	for _, r := range ownChildren(self) {
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

// anyEnded says whether a child has ended and nobody has waited for it yet. It takes no exit status.
func anyEnded() bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && info.Signo != 0
		}
	}
}

// ownChildren reads the lists that the system keeps of the children of each thread, and the whole
// process table where it keeps none.
func ownChildren(self int) []row {
	dir := "/proc/" + strconv.Itoa(self) + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return processTable()
	}
	var rows []row
	for _, thread := range threads {
		text, err := os.ReadFile(dir + thread.Name() + "/children")
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(dir + thread.Name()); err == nil {
				return processTable() // a system without such lists, and not a thread that has ended
			}
		}
		for word := range bytes.FieldsSeq(text) {
			if pid, err := strconv.Atoi(string(word)); err == nil {
				if r, ok := rowOf(pid); ok {
					rows = append(rows, r)
				}
			}
		}
	}
	return rows
}
