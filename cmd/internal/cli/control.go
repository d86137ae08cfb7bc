package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// ControlSocket is the socket at which a running program with that state directory is
// asked, with HTTP and JSON.
func ControlSocket(dir string) string { return filepath.Join(dir, controlName) }

const (
	controlName = "control.sock"
	// controlNew is a directory in which the socket is made, so that there is no moment
	// at which others could use it. It is shorter than the name the socket gets.
	controlNew = ".c"

	// MaxControlConns is how many connections a control socket's server is to have at once.
	MaxControlConns = 64
)

// ControlListener is the control socket of a program. Only its owner's processes and
// root's are let in, which is checked by the system's word for who has connected and not
// only by the socket's mode. Its methods may be used concurrently; Close ends it.
type ControlListener struct {
	net.Listener
	path string
	file os.FileInfo // what it was when it was made
	once sync.Once

	refused atomic.Int64 // connections of other users
}

// ListenControl makes the control socket, for its owner only. The caller holds the state
// directory's lock: a socket that is there is a dead program's, and is replaced.
func ListenControl(dir string) (*ControlListener, error) {
	l, err := listenControl(dir)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, nil
}

func listenControl(dir string) (*ControlListener, error) {
	path, made := ControlSocket(dir), filepath.Join(dir, controlNew)
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is there and is no socket; remove it", path)
	}
	_ = os.RemoveAll(made) // what a program left that was killed here
	if err := os.Mkdir(made, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(made)
	name := filepath.Join(made, "s")
	l, err := listenAt(name)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // Close looks first whose it is
	if err = os.Chmod(name, 0o600); err == nil {
		err = os.Rename(name, path)
	}
	var file os.FileInfo
	if err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	c := &ControlListener{path: path, file: file}
	c.Listener = ownOnly{l, &c.refused}
	return c, nil
}

// Refused is how many connections of other users there were.
func (l *ControlListener) Refused() int64 { return l.refused.Load() }

// Check returns an error when nobody can connect any more, since the socket's file was
// removed or replaced.
func (l *ControlListener) Check() error {
	info, err := os.Lstat(l.path)
	switch {
	case err != nil:
		return err
	case !os.SameFile(info, l.file):
		return errors.New("the control socket was replaced")
	}
	return nil
}

// Close ends Accept and removes the socket, if it is still this one. It may be called
// twice.
func (l *ControlListener) Close() (err error) {
	l.once.Do(func() {
		err = l.Listener.Close()
		if l.Check() == nil {
			_ = os.Remove(l.path)
		}
	})
	return err
}

// ownOnly lets in the owner and root.
type ownOnly struct {
	*net.UnixListener
	refused *atomic.Int64
}

func (l ownOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.UnixListener.Accept()
		if err != nil {
			return nil, err
		}
		peer, known := PeerOf(c)
		if !known || peer.UID == 0 || peer.UID == os.Geteuid() {
			return c, nil
		}
		l.refused.Add(1)
		_ = c.Close()
	}
}

// Peer is who has connected to a Unix socket.
type Peer struct{ UID, PID int }

// PeerOf asks the system who is at the other end; false where it does not say.
func PeerOf(c net.Conn) (Peer, bool) {
	u, ok := unixConn(c)
	if !ok {
		return Peer{}, false
	}
	return peerOf(u)
}

// PeerLeft reports whether the other end of a Unix socket's connection was closed, also
// when there is something to be read from it yet; false where the system does not say.
func PeerLeft(c net.Conn) bool {
	u, ok := unixConn(c)
	return ok && peerLeft(u)
}

func unixConn(c net.Conn) (*net.UnixConn, bool) {
	if wrapped, ok := c.(*limitedConn); ok {
		c = wrapped.Conn
	}
	u, ok := c.(*net.UnixConn)
	return u, ok
}
