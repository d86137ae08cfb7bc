package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/protocol"
)

// ListenOptions of Listen; zero fields but Token are defaults.
type ListenOptions struct {
	// Token is what a peer has to send as Authorization: Bearer. It is asked for each
	// request, may be called concurrently, and is required.
	Token func(ctx context.Context) (string, error)

	Subprotocols  []string      // understood, preferred first (default executor.v1)
	MaxFrameBytes int           // largest message read (default 1 MiB)
	PingInterval  time.Duration // default 10 s; negative = no pings
	DeadAfter     time.Duration // nothing received for so long = dead (default 25 s)

	// OnRefused is told who was not let in and why. It must be quick, and may be called
	// concurrently.
	OnRefused func(status int, err error)
}

// Listener is a Unix socket at which the peer dials, with the same WebSocket
// handshake as the other way round (spec section 1.1): who is executor and who is brain
// does not change with who dials. It takes one connection at a time: while there is one,
// others are answered 503 with Retry-After: 1, and one that nobody takes by Accept is
// closed again with the reason retry-after=1. Its methods may be used concurrently;
// whoever made it closes it.
type Listener struct {
	path   string
	file   os.FileInfo // what it was when it was made
	opts   ListenOptions
	server *http.Server
	served chan struct{}
	once   sync.Once

	mu       sync.Mutex
	closed   bool
	handlers sync.WaitGroup // requests

	look   time.Duration // how often Accept looks whether the socket is still there
	taken  chan struct{} // holds one while there is a connection
	frames chan Frames   // to Accept
}

// ErrSocketGone is wrapped by Accept when the socket's file was removed or replaced:
// nobody can dial it any more.
var ErrSocketGone = errors.New("the socket was removed")

const (
	// acceptPatience is for how long a peer whose credential is good is kept waiting
	// while nobody is in Accept.
	acceptPatience = time.Second
	// lookAgain is how often Accept looks for the socket: a look costs one system call.
	lookAgain = time.Second
	// MaxSocketPath is the longest path of a Unix socket in bytes, on the system that
	// allows least.
	MaxSocketPath = 103
)

// Listen makes the socket, for its owner only. The file of a process that has died is
// removed; one that somebody listens at is an error, and so is anything that is no socket.
func Listen(path string, o ListenOptions) (*Listener, error) {
	if o.Token == nil {
		return nil, errors.New("listen: a token is required; without one everybody on this machine could drive the executor")
	}
	socket, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	l := &Listener{path: path, opts: o, look: lookAgain, served: make(chan struct{}), taken: make(chan struct{}, 1), frames: make(chan Frames)}
	if l.file, err = os.Lstat(path); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	l.server = &http.Server{Handler: http.HandlerFunc(l.serve), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: log.New(discard{}, "", 0)}
	go func() {
		defer close(l.served)
		_ = l.server.Serve(socket) // which ends with Close
	}()
	return l, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// listenUnix makes the socket while no other process does the same there.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > MaxSocketPath {
		return nil, fmt.Errorf("listen: the path %s is longer than the %d bytes a socket's may have; use a shorter one", path, MaxSocketPath)
	}
	unlock, err := lockDirOf(path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it may be another's by then
	return l, nil
}

// removeStale makes room where a process that has died has left its socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("listen: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("listen: %s is there already and is no socket; remove it, or use another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
	}
	if err == nil || !refused(err) { // a full backlog is somebody too
		return fmt.Errorf("listen: another process listens at %s; stop it, or use another path", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listen: remove the socket of a process that has ended: %w", err)
	}
	return nil
}

// Accept waits for a peer that is let in, and returns its connection. The error is the
// context's, net.ErrClosed after Close, or wraps ErrSocketGone.
func (l *Listener) Accept(ctx context.Context) (Frames, error) {
	look := time.NewTicker(l.look)
	defer look.Stop()
	for {
		if info, err := os.Lstat(l.path); err != nil || !os.SameFile(info, l.file) {
			return nil, fmt.Errorf("%w: %s", ErrSocketGone, l.path)
		}
		select {
		case f := <-l.frames:
			return f, nil
		case <-look.C:
		case <-l.served:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close lets nobody in any more and removes the socket. Connections that were taken go
// on. It may be called more than once.
func (l *Listener) Close() error {
	l.once.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.file) {
			_ = os.Remove(l.path)
		}
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		_ = l.server.Close()
		<-l.served
		l.handlers.Wait()
	})
	return nil
}

// enter says that a request is being answered; false after Close.
func (l *Listener) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.handlers.Add(1)
	}
	return !l.closed
}

func (l *Listener) serve(w http.ResponseWriter, r *http.Request) {
	if !l.enter() {
		return
	}
	defer l.handlers.Done()
	if status, err := l.check(r); err != nil {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		l.refuse(w, status, err)
		return
	}
	patience := time.NewTimer(acceptPatience)
	defer patience.Stop()
	busy := errors.New("another connection is there already")
	select {
	case l.taken <- struct{}{}:
	default:
		l.refuse(w, http.StatusServiceUnavailable, busy)
		return
	}
	free := sync.OnceFunc(func() { <-l.taken })
	f, err := Accept(w, r, AcceptOptions{Subprotocols: l.opts.Subprotocols, MaxFrameBytes: l.opts.MaxFrameBytes,
		PingInterval: l.opts.PingInterval, DeadAfter: l.opts.DeadAfter})
	if err != nil {
		free()
		l.tell(http.StatusBadRequest, err)
		return
	}
	f.(*webSocket).onClose = free
	select {
	case l.frames <- f:
	case <-patience.C:
		f.(*webSocket).refuse(protocol.CloseServiceRestart, "retry-after=1")
	case <-l.served:
		f.(*webSocket).refuse(protocol.CloseGoingAway, "going away")
	}
}

// check compares tokens in constant time.
func (l *Listener) check(r *http.Request) (status int, err error) {
	want, err := l.opts.Token(r.Context())
	if err != nil || want == "" {
		return http.StatusServiceUnavailable, errors.New("the token to compare with cannot be read now")
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !ok {
		return http.StatusUnauthorized, errors.New("the token is not this executor's")
	}
	return 0, nil
}

func (l *Listener) refuse(w http.ResponseWriter, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, err.Error(), status)
	l.tell(status, err)
}

func (l *Listener) tell(status int, err error) {
	if l.opts.OnRefused != nil {
		l.opts.OnRefused(status, err)
	}
}
