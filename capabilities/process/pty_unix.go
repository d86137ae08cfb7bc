//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// ptySettle is how long after the exit a PTY that others still hold is read for what is on its way.
const ptySettle = 100 * time.Millisecond

// endOfFile is what a terminal takes for the end of the input (VEOF, Ctrl-D).
const endOfFile = 4

// terminal is the near side of a PTY. A nil one does nothing: the process has pipes. All methods may be
// called concurrently.
type terminal struct {
	near *os.File
	rest chan struct{} // what was printed before the exit is delivered
}

// terminalsWork says whether this machine gives out PTYs now.
func terminalsWork() bool {
	t, far, err := openTerminal(defaultCols, defaultRows)
	if err != nil {
		return false
	}
	t.close()
	return far.Close() == nil
}

// openTerminal makes a PTY of a size, which the program finds from its first moment. The far side is
// the caller's.
func openTerminal(cols, rows int) (_ *terminal, far *os.File, err error) {
	master, far, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		_ = master.Close()
		if err != nil {
			_ = far.Close()
		}
	}()
	// The library has left its file in blocking mode, where Close does not end a Read.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("duplicate its descriptor: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("set it to non-blocking: %w", err)
	}
	t := &terminal{near: os.NewFile(uintptr(fd), "pty"), rest: make(chan struct{})}
	if err := t.resize(cols, rows); err != nil {
		t.close()
		return nil, nil, fmt.Errorf("set its size: %w", err)
	}
	return t, far, nil
}

// resize tells the program a new size. The error is that of a PTY which is closed.
func (t *terminal) resize(cols, rows int) error {
	return t.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
}

// control runs f on the descriptor, which stays open meanwhile.
func (t *terminal) control(f func(fd int) error) error {
	raw, err := t.near.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// pump reads until nobody holds the far side any more, or close.
func (t *terminal) pump(sink spawn.Sink) {
	buf := make([]byte, 32<<10)
	err := t.read(buf, sink)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The program has ended, and others still hold the far side. What lies there now it may have
		// printed.
		t.drain(buf, sink)
		close(t.rest)
		_ = t.near.SetReadDeadline(time.Time{})
		_ = t.read(buf, sink)
		sink(nil)
		return
	}
	// EIO is how a PTY says that nobody holds the far side.
	sink(nil)
	close(t.rest)
}

func (t *terminal) read(buf []byte, sink spawn.Sink) error {
	for {
		n, err := t.near.Read(buf)
		if n > 0 {
			sink(buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// drain reads what is there, and not more than a terminal holds: others may be writing without end.
func (t *terminal) drain(buf []byte, sink spawn.Sink) {
	const most = 128 << 10
	for total := 0; total < most; {
		n := 0
		_ = t.control(func(fd int) (err error) {
			for {
				if n, err = unix.Read(fd, buf); err != syscall.EINTR {
					return err
				}
			}
		})
		if n <= 0 {
			return
		}
		sink(buf[:n])
		total += n
	}
}

// exited says that the program has ended: what it has printed is waited for, and no more. False: this
// system knows no such deadline, and settled may come late.
func (t *terminal) exited() bool {
	return t == nil || t.near.SetReadDeadline(time.Now().Add(ptySettle)) == nil
}

// settled is closed when what the program printed before its exit is delivered.
func (t *terminal) settled() <-chan struct{} {
	if t == nil {
		return closed()
	}
	return t.rest
}

// input is the way to the program. Its end is the character that ends a terminal's input: once at the
// beginning of a line, twice behind an unfinished one.
func (t *terminal) input() way {
	last := byte('\n') // write and end are called by one goroutine
	return way{
		write: func(p []byte) error {
			last = p[len(p)-1]
			_, err := t.near.Write(p)
			return err
		},
		end: func() {
			end := []byte{endOfFile, endOfFile}
			if last == '\n' || last == '\r' {
				end = end[:1]
			}
			_, _ = t.near.Write(end)
		},
		abort: func() error { return t.near.SetWriteDeadline(time.Unix(1, 0)) },
	}
}

func (t *terminal) close() {
	if t != nil {
		_ = t.near.Close()
	}
}
