package cli

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// While there is no room to wait in, the client tries again.
func TestClientTriesAgain(t *testing.T) {
	dir := t.TempDir()
	l, err := ListenControl(dir)
	require.NoError(t, err)
	defer l.Close()
	raw, err := l.Listener.(ownOnly).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 1) }))
	require.NoError(t, err)
	var waiting []net.Conn
	for {
		c, err := net.Dial("unix", ControlSocket(dir))
		if err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			break
		}
		defer c.Close()
		waiting = append(waiting, c)
	}
	c := &Client{Program: "prog", Dir: dir, Patience: 100 * time.Millisecond}
	assert.ErrorContains(t, c.Do(t.Context(), http.MethodGet, "/", nil, nil), "does not answer within 100ms")

	answer := make(chan error, 1)
	c.Patience = 20 * time.Second
	go func() { answer <- c.Do(t.Context(), http.MethodGet, "/", nil, nil) }()
	for range len(waiting) + 1 {
		in, err := l.Accept()
		require.NoError(t, err)
		if len(waiting) == 0 { // those that wait are first
			_, err = in.Read(make([]byte, 4096))
			require.NoError(t, err)
			_, err = in.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
			require.NoError(t, err)
			require.NoError(t, <-answer)
		} else {
			waiting = waiting[1:]
		}
		_ = in.Close()
	}
}
