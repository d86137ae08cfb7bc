package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

const (
	pipeStuck = 2 * time.Second        // of a write, at the end: the client does not read
	pipeLook  = 500 * time.Millisecond // between looks at that
)

var errNotRead = errors.New("the client does not read any more")

// pipeWatch is a standard output that is watched once the session is to end: a Write to a
// pipe that nobody reads cannot be ended.
type pipeWatch struct {
	in  io.Reader
	out io.Writer
	eof chan struct{} // closed at the end of the input

	mu    sync.Mutex
	began time.Time // of the write; zero: there is none
}

func newPipeWatch(in io.Reader, out io.Writer) *pipeWatch {
	return &pipeWatch{in: in, out: out, eof: make(chan struct{})}
}

// Write implements io.Writer.
func (w *pipeWatch) Write(p []byte) (int, error) {
	w.set(time.Now())
	defer w.set(time.Time{})
	return w.out.Write(p)
}

func (w *pipeWatch) set(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = t
}

func (w *pipeWatch) stuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.began.IsZero() && time.Since(w.began) >= pipeStuck
}

// input is the standard input, whose end is noticed.
func (w *pipeWatch) input() io.Reader {
	return &pipeInput{w: w, ended: sync.OnceFunc(func() { close(w.eof) })}
}

type pipeInput struct {
	w     *pipeWatch
	ended func()
}

func (i *pipeInput) Read(p []byte) (int, error) {
	n, err := i.w.in.Read(p)
	if err != nil {
		i.ended()
	}
	return n, err
}

// wait waits for the end of the copy, after the end of the input or of ctx only for as
// long as the client reads.
func (w *pipeWatch) wait(ctx context.Context, copied <-chan error) error {
	select {
	case err := <-copied:
		return err
	case <-w.eof:
	case <-ctx.Done():
	}
	look := time.NewTicker(pipeLook)
	defer look.Stop()
	for {
		select {
		case err := <-copied:
			return err
		case <-look.C:
		}
		switch {
		case w.stuck():
			return errNotRead
		case cli.ReaderGone(w.out):
			return syscall.EPIPE
		}
	}
}
