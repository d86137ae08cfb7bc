//go:build unix

package oversight

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lookEvery is how often it is looked, while a line is waited for, whether it is still wanted: milliseconds.
const lookEvery = 200

// terminalLines reads a terminal without holding on to it: a read that has begun could not be ended.
type terminalLines struct {
	fd   int
	held []byte
}

func newLines(f *os.File) lines { return &terminalLines{fd: int(f.Fd())} }

// foreground reports whether reading would not stop the program, as it does one in the background.
func (t *terminalLines) foreground() bool {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (t *terminalLines) flush() {
	t.held = nil
	if !t.foreground() {
		return
	}
	flushTerminal(t.fd)
	for {
		if ready, err := t.ready(0); !ready || err != nil || t.read() != nil {
			break
		}
	}
	t.held = nil
}

func (t *terminalLines) ready(ms int) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, ms)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}

func (t *terminalLines) read() error {
	var b [1024]byte
	n, err := unix.Read(t.fd, b[:])
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil:
		return err
	case n <= 0:
		return io.EOF
	}
	t.held = append(t.held, b[:n]...)
	if len(t.held) > 4096 { // no answer is that long
		t.held = t.held[len(t.held)-1:]
	}
	return nil
}

func (t *terminalLines) wait(ctx context.Context, changed <-chan struct{}) (string, bool, error) {
	for {
		if i := bytes.IndexByte(t.held, '\n'); i >= 0 {
			line := string(t.held[:i])
			t.held = t.held[i+1:]
			return line, true, nil
		}
		select {
		case <-changed:
			return "", false, nil
		case <-ctx.Done():
			return "", false, nil
		default:
		}
		if !t.foreground() { // the shell has it; fg brings it back
			select {
			case <-time.After(lookEvery * time.Millisecond):
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		ready, err := t.ready(lookEvery)
		if err != nil {
			return "", false, err
		}
		if !ready {
			continue
		}
		if err := t.read(); err != nil {
			return "", false, err
		}
	}
}
