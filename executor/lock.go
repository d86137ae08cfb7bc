package executor

import (
	"io"

	"github.com/agent-executor/executor/executor/internal/dirlock"
)

// HeldError is the error of a directory that another process, or another executor of
// this one, holds (spec section 14.13). It names the process.
type HeldError = dirlock.HeldError

// LockDir takes a directory, which must be there, for this process, until Close or the
// end of the process. New does it with its StateDir; it is for programs that keep
// something beside that.
func LockDir(dir string) (io.Closer, error) { return dirlock.Lock(dir) }

// LockHolder says whether a process holds a directory that LockDir takes, and which: pid
// is 0 when it is not known. It takes nothing and makes nothing.
func LockHolder(dir string) (pid int, held bool) { return dirlock.Holder(dir) }
