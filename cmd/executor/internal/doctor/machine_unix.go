//go:build unix

package doctor

import (
	"context"
	"fmt"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// PTY looks whether a terminal can be made.
func PTY(context.Context) Result {
	near, far, err := pty.Open()
	if err != nil {
		return fail("mount devpts: mount -t devpts devpts /dev/pts, with /dev/ptmx a link to pts/ptmx", "no terminal can be made: %v", err)
	}
	defer near.Close()
	defer far.Close()
	if err := pty.Setsize(near, &pty.Winsize{Rows: 50, Cols: 132}); err != nil {
		return fail("look at how /dev/pts is mounted", "a terminal takes no size: %v", err)
	}
	return ok("%s was made", far.Name())
}

// minFiles is what an executor with many sessions needs.
const minFiles = 4096

// Limits looks at how many files may be open.
func Limits(context.Context) Result {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return skip("limits are not known: %v", err)
	}
	return judgeFiles(uint64(l.Max))
}

// judgeFiles takes the hard limit, up to which a Go program raises its own.
func judgeFiles(limit uint64) Result {
	const remedy = "raise it: LimitNOFILE=65536 in the unit, or ulimit -Hn"
	switch {
	case limit < 256:
		return fail(remedy, "only %d files may be open", limit)
	case limit < minFiles:
		return warn(remedy, "only %d files may be open; many sessions need %d", limit, minFiles)
	}
	return ok("%s files may be open", number(limit))
}

func number(n uint64) string {
	if n >= 1<<62 {
		return "any number of"
	}
	return fmt.Sprint(n)
}
