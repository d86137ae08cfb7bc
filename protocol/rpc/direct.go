package rpc

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// lowWater is the most bytes that a reader waits for at once when it knows that they
	// are on their way, and minLowWater the fewest that it does that for: woken for each
	// piece that a network delivers, it costs more than what it reads.
	lowWater    = 128 << 10
	minLowWater = 16 << 10
	// quickWait is how long a wait for much may have taken before the next is for so much
	// at once: from a slow peer it would be long, and look as if nothing came.
	quickWait = time.Millisecond
)

// directRead reads a socket with read(2), and waits only when there is nothing. The
// connection's reader uses it.
type directRead struct {
	conn   net.Conn
	raw    syscall.RawConn
	step   func(fd uintptr) (done bool) // try, bound once
	frames bool                         // what is asked for beyond readBuffer is known to come

	p     []byte
	n     int
	errno syscall.Errno
	began time.Time // of the wait; zero when there was none
	low   int       // bytes that a wait is for now
	quick bool      // the last wait for much was
}

func newDirectRead(c net.Conn, raw syscall.RawConn) *directRead {
	if raw == nil || !canReadNow {
		return nil
	}
	_, tcp := c.(*net.TCPConn)
	d := &directRead{conn: c, raw: raw, frames: tcp, low: 1}
	d.step = d.try
	return d
}

// read is net.Conn's. p is not empty.
func (d *directRead) read(p []byte) (int, error) {
	d.p, d.began = p, time.Time{}
	err := d.raw.Read(d.step)
	d.p = nil
	if !d.began.IsZero() {
		d.quick = time.Since(d.began) < quickWait
	}
	var op *net.OpError
	switch {
	case errors.As(err, &op): // closed, or a deadline
		op.Op = "read"
		return 0, err
	case err != nil:
		return 0, err
	case d.errno != 0:
		return 0, &net.OpError{Op: "read", Net: d.conn.LocalAddr().Network(), Source: d.conn.LocalAddr(), Addr: d.conn.RemoteAddr(),
			Err: os.NewSyscallError("read", d.errno)}
	case d.n == 0:
		return 0, io.EOF
	}
	return d.n, nil
}

// try reads, and says how much is to be waited for when nothing is there.
func (d *directRead) try(fd uintptr) (done bool) {
	d.n, d.errno = readNow(fd, d.p)
	if d.errno != syscall.EAGAIN {
		return true
	}
	low := 1
	if d.frames && len(d.p) >= minLowWater {
		if d.quick {
			low = min(len(d.p), lowWater)
		}
		if d.began.IsZero() {
			d.began = time.Now()
		}
	}
	if low != d.low {
		setLowWater(fd, low)
		d.low = low
	}
	return false
}
