package service

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/executor"
)

// manager is a service manager's socket.
type manager struct {
	t    *testing.T
	name string
	conn *net.UnixConn
}

func newManager(t *testing.T, name string) *manager {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no such sockets")
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &manager{t, name, conn}
}

// got is the lines of the next message; nil when none comes.
func (m *manager) got(patience time.Duration) []string {
	m.t.Helper()
	buf := make([]byte, 8<<10)
	require.NoError(m.t, m.conn.SetReadDeadline(time.Now().Add(patience)))
	n, err := m.conn.Read(buf)
	if err != nil {
		return nil
	}
	return strings.Split(string(buf[:n]), "\n")
}

func TestNewNotifier(t *testing.T) {
	for _, c := range []struct {
		socket, usec, pid string
		wanted            bool
		watchdog          time.Duration
		says              string
	}{
		{"", "", "", false, 0, ""},
		{"", "1000", "", false, 0, ""},
		{"/run/x", "", "", true, 0, ""},
		{"@x", "30000000", "7", true, 30 * time.Second, ""},
		{"@x", "30000000", "", true, 30 * time.Second, ""},
		{"@x", "30000000", "8", true, 0, ""}, // it is another process's
		{"@x", "0", "", true, 0, "WATCHDOG_USEC"},
		{"@x", "many", "", true, 0, "WATCHDOG_USEC"},
		{"@x", "99999999999999999", "", true, 0, "WATCHDOG_USEC"},
		{"vsock:2:1234", "", "", false, 0, "NOTIFY_SOCKET: want a path"},
		{"@", "", "", false, 0, "NOTIFY_SOCKET"},
	} {
		t.Setenv("NOTIFY_SOCKET", c.socket)
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		n, err := NewNotifier(7)
		if c.says == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, c.says)
		}
		assert.Equal(t, c.wanted, n.wanted(), c.socket)
		assert.Equal(t, c.watchdog, n.watchdog)
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
			_, there := os.LookupEnv(name)
			assert.False(t, there, "no child has %s", name)
		}
	}
}

func TestNotifierTells(t *testing.T) {
	names := []string{filepath.Join(t.TempDir(), "s")}
	if runtime.GOOS == "linux" {
		names = append(names, "@executor-test-"+filepath.Base(t.TempDir())+"-"+time.Now().Format("150405.000000"))
	}
	for _, name := range names {
		m := newManager(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		n, err := NewNotifier(1)
		require.NoError(t, err)
		require.NoError(t, n.tell("READY=1", "STATUS=fine"))
		assert.Equal(t, []string{"READY=1", "STATUS=fine"}, m.got(10*time.Second))
		require.NoError(t, m.conn.Close())
		assert.Error(t, n.tell("x"), "nobody is there, and nobody waits")
	}
	assert.NoError(t, (&Notifier{}).tell("x"))
}

// What was not heard is said again.
func TestSupervisionThatIsNotHeard(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s")
	t.Setenv("NOTIFY_SOCKET", name)
	n, err := NewNotifier(os.Getpid())
	require.NoError(t, err)
	ready := control.Status{Brains: []control.BrainStatus{{Name: "a", Status: executor.Status{State: executor.StateReady, LastContact: time.Now()}}}}
	v := NewSupervision(n, func() control.Status { return ready }, zap.NewNop())
	v.look(time.Now(), true)
	assert.True(t, v.failing)
	m := newManager(t, name)
	v.look(time.Now(), false)
	assert.Equal(t, []string{"READY=1", "STATUS=a: connected, 0 sessions, 0 calls running"}, m.got(200*time.Millisecond))
	assert.False(t, v.failing)
	v.look(time.Now(), false)
	assert.Nil(t, m.got(200*time.Millisecond), "once")
}

// What is told, and when, of a program whose status changes.
func TestSupervision(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "s"))
	t.Setenv("NOTIFY_SOCKET", m.name)
	t.Setenv("WATCHDOG_USEC", "10000000")
	n, err := NewNotifier(os.Getpid())
	require.NoError(t, err)
	var s control.Status
	v := NewSupervision(n, func() control.Status { return s }, zap.NewNop())
	began := time.Now()
	v.began = began
	at := func(d time.Duration, due bool, states ...executor.Status) []string {
		t.Helper()
		s.Brains = nil
		for i, state := range states {
			s.Brains = append(s.Brains, control.BrainStatus{Name: string(rune('a' + i)), Status: state})
		}
		v.look(began.Add(d), due)
		return m.got(200 * time.Millisecond)
	}
	stopped, waiting := executor.Status{State: executor.StateStopped}, executor.Status{State: executor.StateWaiting, LastError: "no route\nto host"}
	ready := executor.Status{State: executor.StateReady, LastContact: began, CallsRunning: 1}
	stuck := ready
	stuck.Overdue = time.Second
	draining := executor.Status{State: executor.StateDraining, DrainUntil: began.Add(100 * time.Second), CallsRunning: 1}

	assert.Equal(t, []string{"STATUS=a: stopped", "WATCHDOG=1"}, at(0, true, stopped), "it has not begun yet")
	assert.Equal(t, []string{"STATUS=a: not connected: no route to host"}, at(time.Second, false, waiting))
	assert.Equal(t, []string{"WATCHDOG=1"}, at(2*time.Second, true, waiting), "a brain that is away is no reason to be killed")
	assert.Equal(t, []string{"READY=1", "STATUS=a: connected, 0 sessions, 1 call running"}, at(3*time.Second, false, ready))
	assert.Nil(t, at(4*time.Second, false, ready), "nothing new")
	assert.Nil(t, at(5*time.Second, true, stuck), "the watchdog bites")
	assert.Equal(t, []string{"WATCHDOG=1"}, at(6*time.Second, true, ready))
	assert.Equal(t, []string{"STATUS=a: connected, 0 sessions, 1 call running; b: not connected: no route to host"}, at(7*time.Second, false, ready, waiting))
	assert.Equal(t, []string{"STATUS=a: finishing: 1 call; b: not connected: no route to host"}, at(8*time.Second, false, draining, waiting), "one goes on")
	assert.Equal(t, []string{"STOPPING=1", "STATUS=a: finishing: 1 call; b: stopped", "EXTEND_TIMEOUT_USEC=20000000"}, at(9*time.Second, false, draining, stopped))
	assert.Equal(t, []string{"EXTEND_TIMEOUT_USEC=20000000", "WATCHDOG=1"}, at(100*time.Second, true, draining, stopped))
	assert.Equal(t, []string{"EXTEND_TIMEOUT_USEC=20000000"}, at(144*time.Second, false, draining, stopped))
	assert.Nil(t, at(146*time.Second, false, draining, stopped), "it hangs: more time does not help")

	v = NewSupervision(n, v.status, zap.NewNop())
	v.began = began
	assert.Equal(t, []string{"READY=1", "STATUS=a: not connected: no route to host"}, at(readyAfter, false, waiting), "nobody waits for a brain for ever")
	s.Stopping = true
	assert.Equal(t, []string{"STOPPING=1", "STATUS=a: connected, 0 sessions, 1 call running", "EXTEND_TIMEOUT_USEC=20000000"}, at(40*time.Second, false, ready))
}
