package spawn

import (
	"errors"
	"os"
	"sync"
	"time"
)

// bufferSize is the capacity of a pipe: one read empties it.
const bufferSize = 64 << 10

// widePipe is the capacity of the pipe of a program that prints much: it is stopped and started less
// often, and so is who reads. It is not for all, since the system gives an ordinary user 64 MB for what is
// above bufferSize, and pipes of two pages when those are used up.
const widePipe = 256 << 10

var (
	buffers     = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	wideBuffers = sync.Pool{New: func() any { return new([widePipe]byte) }}
)

// pump carries the output of one pipe to its sink. It goes on reading, to nowhere, as long as anybody
// holds the pipe: a background process must not die of SIGPIPE or block because its command returned.
type pump struct {
	file    *os.File
	sink    Sink
	settled chan struct{} // what was in the pipe at the exit is delivered
	ended   chan struct{} // the pipe is closed
}

func newPump(file *os.File, sink Sink) *pump {
	return &pump{file: file, sink: sink, settled: make(chan struct{}), ended: make(chan struct{})}
}

// settle makes the pump come to rest: at the end of the pipe, or at the deadline with what is in the
// pipe then.
func (u *pump) settle(deadline time.Time) {
	if err := u.file.SetReadDeadline(deadline); errors.Is(err, os.ErrNoDeadline) {
		settleWithoutDeadline(u, deadline)
	}
}

func (u *pump) run(follow bool) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)

	err := u.read(buf[:])
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		u.sink(nil)
		_ = u.file.Close()
		close(u.ended) // first: who finds the pump settled and not ended takes the pipe for held
		close(u.settled)
		return
	}
	// A deadline makes Read return without looking at the pipe. What lies in it now was printed
	// before the exit, or at least before the deadline; what comes after it is not ours to wait for.
	drain(u.file, buf[:], u.sink)
	sink := u.sink
	if !follow {
		sink(nil)
		u.sink = nil
	}
	close(u.settled)
	_ = u.file.SetReadDeadline(time.Time{})
	_ = u.read(buf[:])
	if follow {
		sink(nil)
	}
	_ = u.file.Close()
	close(u.ended)
}

// widenAfter is how many reads of a full pipe, one after another, make it a wide one.
const widenAfter = 4

// read delivers until the end of the pipe (nil), the deadline, or the closing of our end.
func (u *pump) read(buf []byte) error {
	for full := 0; full < widenAfter; {
		n, err := u.deliver(buf)
		switch {
		case err != nil:
			return err
		case n < len(buf):
			full = 0
		default:
			full++
		}
	}
	if widen(u.file) {
		wide := wideBuffers.Get().(*[widePipe]byte)
		defer wideBuffers.Put(wide)
		buf = wide[:]
	}
	for {
		if _, err := u.deliver(buf); err != nil {
			return err
		}
	}
}

// deliver passes on what one read brings.
func (u *pump) deliver(buf []byte) (int, error) {
	n, err := u.file.Read(buf)
	if n > 0 && u.sink != nil {
		u.sink(buf[:n])
	}
	return n, err
}
