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

// DirHolder looks which process holds a directory, without taking it: pid is 0 where that
// is not known. It is for programs that look after an executor.
func DirHolder(dir string) (pid int, held bool, err error) { return dirlock.Holder(dir) }
