package spawn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The pipe of a program that prints much is a wide one, that of others is not, and nothing is lost.
func TestWidePipe(t *testing.T) {
	size := func(p *Process) (n int) {
		conn, err := p.pumps[0].file.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, conn.Control(func(fd uintptr) { n, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }))
		require.NoError(t, err)
		return n
	}
	waiting := func(p *Process) (n int, err error) {
		conn, err := p.pumps[0].file.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), fionread) }))
		return n, err
	}
	g := NewGroup()
	defer g.Close(0)
	var got int
	var capacity int
	var p *Process
	started := make(chan struct{})
	p, err := g.Start(Command{Env: []string{"PATH=/bin:/usr/bin"}, Argv: []string{"/bin/sh", "-c", "head -c 4000000 /dev/zero"}, Stdout: func(b []byte) {
		<-started
		for i := 0; size(p) == bufferSize && got < 2000000 && i < 10_000; i++ { // the program is faster
			if n, err := waiting(p); err != nil || n == bufferSize {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if got += len(b); got == 4000000 && len(b) > 0 {
			capacity = size(p)
		}
	}})
	require.NoError(t, err)
	close(started)
	require.Zero(t, p.Wait().Code)
	require.Equal(t, 4000000, got)
	require.Equal(t, widePipe, capacity)

	small := make(chan int, 1)
	started = make(chan struct{})
	p, err = g.Start(Command{Argv: []string{"/bin/sh", "-c", "echo one"}, Stdout: func(b []byte) {
		<-started
		if len(b) > 0 {
			small <- size(p)
		}
	}})
	require.NoError(t, err)
	close(started)
	p.Wait()
	require.Equal(t, bufferSize, <-small)
}
