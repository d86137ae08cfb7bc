package spawn

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Case 14: orphans that come to the executor are reaped, and no exit status is taken from a waiter.
func TestReapOrphans(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { ReapOrphans(ctx) })
	defer wg.Wait()
	defer cancel()

	g := newGroup(t)
	for range stress(5, 10) {
		script(t, g, `(sleep 0.2 & exec sleep 0.3) & disown; true`).Wait()
	}
	for range stress(15, 40) {
		assert.Equal(t, 7, script(t, g, `exit 7`).Wait().Code)
	}
	zombies := func() (n int) {
		for _, r := range processTable() {
			if r.dead && r.ppid == os.Getpid() {
				n++
			}
		}
		return n
	}
	assert.Eventually(t, func() bool { return zombies() == 0 }, 10*time.Second, 50*time.Millisecond)
	assert.Empty(t, g.Close(0), "what has ended is no survivor, reaped or not")
}

// Case X9: a process of another user is listed as a survivor, and the call ends. It takes root to make
// one: the test runs itself as nobody, with a setuid program.
func TestSurvivorOfAnotherUser(t *testing.T) {
	if dir := os.Getenv("TEST_AS_NOBODY"); dir != "" {
		number := "71999." + strconv.Itoa(os.Getppid())
		g := NewGroup()
		out := newOutput()
		p, err := g.Start(Command{Script: dir + `/become --reuid=0 --regid=0 --clear-groups sleep ` + number + ` & echo started; wait`,
			Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir, Stdout: out.sink})
		require.NoError(t, err)
		defer g.Close(0)
		out.until(t, "started")
		isSleep := func(m Member) bool { return m.Command == "sleep "+number } // not yet: still the one that becomes root
		require.Eventually(t, func() bool { return slices.ContainsFunc(p.Background(), isSleep) }, 10*time.Second, 10*time.Millisecond)
		started := time.Now()
		survivors := p.Terminate(300 * time.Millisecond)
		assert.Less(t, time.Since(started), 20*time.Second) // it is not waited for; a busy machine is slow
		require.Len(t, survivors, 1)
		assert.Equal(t, "sleep "+number, survivors[0].Command)
		assert.Equal(t, "not permitted to signal it", survivors[0].Reason)
		assert.Equal(t, "SIGTERM", p.Wait().Signal)
		return
	}
	text, err := asNobodyWith(t, "TestSurvivorOfAnotherUser")
	for _, r := range processTable() {
		if commandOf(r.pid) == "sleep 71999."+strconv.Itoa(os.Getpid()) {
			assert.NoError(t, syscall.Kill(r.pid, syscall.SIGKILL), strconv.Itoa(r.pid))
		}
	}
	assert.NoError(t, err, text)
	assert.Contains(t, text, "--- PASS")
}

// asNobody runs a test of this package once more, as a user without rights.
func asNobody(t *testing.T, name string) {
	t.Helper()
	text, err := asNobodyWith(t, name)
	assert.NoError(t, err, text)
	assert.Contains(t, text, "--- PASS")
}

// asNobodyWith is asNobody, without a judgement. TEST_AS_NOBODY is the directory with the test program,
// in which there is also a program named become, with root's rights, that is setpriv.
func asNobodyWith(t *testing.T, name string) (string, error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	become, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("no setpriv here")
	}
	dir, err := os.MkdirTemp("/var/tmp", "spawn") // where nobody may go, and setuid programs work
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	for from, to := range map[string]string{become: "become", "/proc/self/exe": "test"} {
		program, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), program, 0o755))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "become"), os.ModeSetuid|0o755))
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+name+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"TEST_AS_NOBODY=" + dir, "PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// A child that is given a terminal has it as its controlling one.
func TestTerminal(t *testing.T) {
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here")
	}
	defer near.Close()
	number, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0))
	name := "/dev/pts/" + strconv.Itoa(number)
	far, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	p, err := newGroup(t).Start(Command{Script: `tty; : </dev/tty && echo controlling`, Env: testEnv(), Terminal: far})
	require.NoError(t, err)
	assert.Equal(t, 0, p.Wait().Code)
	text := make([]byte, len(name+"\r\ncontrolling\r\n"))
	_, err = io.ReadFull(near, text) // while the far side is open: afterwards it fails
	require.NoError(t, err)
	require.NoError(t, far.Close())
	assert.Equal(t, name+"\r\ncontrolling\r\n", string(text))
}

// Case 14, as process 1: with a process table of its own, so that all orphans there come to it.
func TestReapOrphansAsProcess1(t *testing.T) {
	const inside = "TEST_AS_PROCESS_1"
	if os.Getenv(inside) != "" {
		require.Equal(t, 1, os.Getpid())
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { ReapOrphans(ctx) })
		defer wg.Wait()
		defer cancel()
		g := newGroup(t)
		var other sync.WaitGroup
		other.Go(func() {
			for range stress(8, 20) {
				script(t, g, `(sleep 0.2 & exec sleep 0.4) & disown; true`).Wait()
			}
		})
		for range stress(24, 60) {
			p, err := g.Start(Command{Argv: []string{"/bin/sh", "-c", "exit 7"}, Env: []string{}})
			require.NoError(t, err)
			require.Equal(t, 7, p.Wait().Code)
		}
		other.Wait()
		assert.Eventually(t, func() bool {
			for _, r := range processTable() {
				if r.pid != 1 {
					return false
				}
			}
			return true
		}, 20*time.Second, 50*time.Millisecond)
		return
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Getuid() != 0 {
		t.Skip("it takes root and unshare to be process 1 of something")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(unshare, "-pf", "--mount-proc", self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	text, err := cmd.CombinedOutput()
	if !bytes.Contains(text, []byte("=== RUN")) {
		t.Skipf("no process tables here: %v: %s", err, text)
	}
	assert.NoError(t, err, string(text))
	assert.Contains(t, string(text), "--- PASS")
}

// The lists of the system are those of the process table.
func TestOwnChildren(t *testing.T) {
	reap(reap(nil)) // orphans of other tests
	g := newGroup(t)
	for range 3 {
		script(t, g, `sleep 60`)
	}
	self := os.Getpid()
	pids := func(rows []row) (list []int) {
		for _, r := range rows {
			if r.ppid == self {
				list = append(list, r.pid)
			}
		}
		slices.Sort(list)
		return list
	}
	assert.Len(t, pids(ownChildren(self)), 3)
	assert.Equal(t, pids(processTable()), pids(ownChildren(self)))
	assert.False(t, anyEnded())
	require.NoError(t, exec.Command("true").Run())
	assert.False(t, anyEnded(), "somebody has waited for it")
}
