//go:build unix

package spawn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a sink that can be read while the child runs.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ended int
	fresh chan struct{}
}

func newOutput() *output { return &output{fresh: make(chan struct{}, 1)} }

func (o *output) sink(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(p) == 0 {
		o.ended++
	}
	o.text.Write(p)
	select {
	case o.fresh <- struct{}{}:
	default:
	}
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// ends counts how often the end was told.
func (o *output) ends() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// until waits for a text to be printed.
func (o *output) until(t *testing.T, want string) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for !strings.Contains(o.String(), want) {
		select {
		case <-o.fresh:
		case <-limit:
			t.Fatalf("%q was not printed; got %q", want, o.String())
		}
	}
}

type child struct {
	*Process
	out, err *output
	started  time.Time
}

func newGroup(t *testing.T) *Group {
	g := NewGroup()
	t.Cleanup(func() { assert.Empty(t, g.Close(0)) })
	return g
}

func script(t *testing.T, g *Group, text string) child {
	t.Helper()
	c := child{out: newOutput(), err: newOutput(), started: time.Now()}
	p, err := g.Start(Command{Script: text, Dir: t.TempDir(), Env: testEnv(), Stdout: c.out.sink, Stderr: c.err.sink})
	require.NoError(t, err)
	c.Process = p
	return c
}

func testEnv() []string { return Environment(nil, Policy{}, nil) }

var counter atomic.Int64

// unique is a number of seconds that no other sleep on this machine has. It does not end in 0, which
// perl would leave out.
func unique() string { return fmt.Sprintf("%d.%d1", 70_000+int(counter.Add(1)), os.Getpid()) }

// freePort is a port of this machine that nobody listens on. It is none of those that the system gives
// to connections, so that nobody gets it in between by chance.
func freePort(t *testing.T) string {
	for {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
}

// alive says whether a process whose command line contains the text is there.
func alive(text string) bool {
	for _, r := range processTable() {
		if !r.dead && r.pid != os.Getpid() && strings.Contains(commandOf(r.pid), text) {
			return true
		}
	}
	return false
}

// Cases A1, A2, 47 (last input): a call ends with its shell, whoever still holds the pipes.
func TestWaitIsForTheChildNotForItsPipes(t *testing.T) {
	for name, text := range map[string]string{
		"stderr held":       `sleep 6001 >/dev/null & echo done`,
		"own session":       `setsid sleep 6001 & echo done`,
		"double fork":       `( sleep 6001 & ); echo done`,
		"coprocess":         `coproc sleep 6001; echo done`,
		"nothing held":      `sleep 6001 >/dev/null 2>&1 & echo done`,
		"printing for ever": `{ while :; do echo tick; sleep 0.05; done; } & echo done`,
		"flooding":          `yes & echo done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewGroup()
			c := script(t, g, text)
			exit := c.Wait()
			assert.Less(t, time.Since(c.started), 2*time.Second)
			assert.Equal(t, 0, exit.Code)
			assert.Contains(t, c.out.String(), "done")
			require.NotEmpty(t, exit.Background, "what is left running is listed")
			assert.NotZero(t, exit.Background[0].PID)
			assert.NotEmpty(t, exit.Background[0].Command)

			before := c.out.String()
			assert.Empty(t, g.Close(time.Second))
			assert.Equal(t, before, c.out.String(), "later output reaches nobody")
			assert.Equal(t, 1, c.out.ends(), "the end is told once")
			for _, m := range exit.Background {
				r, ok := rowOf(m.PID)
				assert.False(t, ok && !r.dead && commandOf(m.PID) == m.Command, "%v is left", m)
			}
		})
	}
}

// Case A5: a real wait in the foreground is one.
func TestForegroundWait(t *testing.T) {
	c := script(t, newGroup(t), `sleep 0.3 & wait; echo END`)
	assert.Equal(t, 0, c.Wait().Code)
	assert.Equal(t, "END\n", c.out.String())
	assert.GreaterOrEqual(t, time.Since(c.started), 300*time.Millisecond)
}

// Cases A6 and 16: no output, or a little just before the end; nothing hangs and nothing is lost.
// 6 times each, and 50 with EXECUTOR_STRESS.
func TestShortCommands(t *testing.T) {
	g := newGroup(t)
	for range stress(6, 50) {
		for text, code := range map[string]int{`grep zzz /dev/null`: 1, `false`: 1, `true`: 0} {
			c := script(t, g, text)
			assert.Equal(t, Exit{Code: code}, withoutTimes(c.Wait()))
			assert.Empty(t, c.out.String()+c.err.String())
		}
		c := script(t, g, `echo last words >&2; exit 3`)
		assert.Equal(t, 3, c.Wait().Code)
		assert.Equal(t, "last words\n", c.err.String())
	}
	nothing := func() bool { return len(g.Processes()) == 0 } // a moment after Wait
	assert.True(t, poll(10*time.Second, nothing), "nothing is remembered of what has ended")
}

func withoutTimes(e Exit) Exit {
	e.UserTime, e.SystemTime = 0, 0
	return e
}

// A writer that ends a moment after the shell belongs to the command. It prints at its end only; its start,
// which takes as long as the machine likes, is waited for.
func TestOutputThroughProcessSubstitution(t *testing.T) {
	c := script(t, newGroup(t), `exec > >(sed s/^/line:/); echo one; echo two; sleep 0.3`)
	assert.Equal(t, 0, c.Wait().Code)
	assert.Equal(t, "line:one\nline:two\n", c.out.String())
}

// Case 19: one stream ends long before the other.
func TestLateStderr(t *testing.T) {
	c := script(t, newGroup(t), `exec 1>&-; sleep 0.3; echo LATE >&2; exit 4`)
	assert.Equal(t, 4, c.Wait().Code)
	assert.Equal(t, "LATE\n", c.err.String())
}

// Case X5: a signal is named and has the shell's number.
func TestSignalDeath(t *testing.T) {
	for text, want := range map[string]Exit{
		`kill -9 $$`:    {Code: 137, Signal: "SIGKILL"},
		`kill -TERM $$`: {Code: 143, Signal: "SIGTERM"},
		`exit 137`:      {Code: 137},
	} {
		c := script(t, newGroup(t), text)
		assert.Equal(t, want, withoutTimes(c.Wait()), text)
	}
}

// Cases 7 and 8: nothing of the tree is left when Terminate returns, wherever it went.
func TestTerminateEndsTheWholeTree(t *testing.T) { endsTheWholeTree(t, newGroup) }

func endsTheWholeTree(t *testing.T, newGroup func(*testing.T) *Group) {
	for name, text := range map[string]string{
		"child":         `sleep 7001 & echo ready; wait`,
		"own session":   `setsid sleep 7001 & echo ready; wait`,
		"job control":   `set -m; sleep 7001 & echo ready; wait`,
		"double fork":   `perl -e 'use POSIX; fork and exit; setsid(); fork and exit; print "ready\n"; exec q(sleep),7001'; sleep 60`,
		"no marker":     `env -i setsid sleep 7001 & echo ready; wait`,
		"only its pipe": `(env -i setsid sleep 7001 >/dev/null & ) ; echo ready; sleep 60`,
		"stopped":       `sleep 7001 & kill -STOP $!; echo ready; wait`,
		"ignores TERM":  `trap '' TERM; sleep 7001 & echo ready; while :; do wait; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			number := unique()
			text = strings.ReplaceAll(text, "7001", number)
			c := script(t, newGroup(t), text)
			c.out.until(t, "ready")
			assert.Empty(t, c.Terminate(300*time.Millisecond))
			assert.False(t, alive("sleep "+number))
			<-c.Done()
			assert.NotZero(t, c.Wait().Code)
		})
	}
}

// Case 10: what was to happen later does not.
func TestNothingHappensAfterTerminate(t *testing.T) { nothingHappensAfter(t, newGroup(t)) }

func nothingHappensAfter(t *testing.T, g *Group) {
	dir := t.TempDir()
	c := script(t, g, `(sleep 0.6; touch `+dir+`/sentinel) & echo ready; sleep 60`)
	c.out.until(t, "ready")
	assert.Empty(t, c.Terminate(time.Second))
	time.Sleep(800 * time.Millisecond)
	assert.NoFileExists(t, filepath.Join(dir, "sentinel"))
}

// Case 18: what is printed between the signal and the end is delivered.
func TestCleanupOutput(t *testing.T) {
	c := script(t, newGroup(t), `trap 'echo CLEANUP >&2; exit 9' TERM; sleep 30 & echo BEFORE; wait`)
	c.out.until(t, "BEFORE")
	assert.Empty(t, c.Terminate(2*time.Second))
	assert.Equal(t, 9, c.Wait().Code)
	assert.Equal(t, "CLEANUP\n", c.err.String())
}

// A process that forks without pause cannot outrun the end.
func TestTerminateForkingTree(t *testing.T) {
	c := script(t, newGroup(t), `f() { while :; do ( sleep 0.01; : ) & sleep 0.005; done; }; trap '' TERM; f & setsid bash -c "trap '' TERM; while :; do (sleep 0.0171717 &) ; sleep 0.01; done" & echo ready; wait`)
	c.out.until(t, "ready")
	assert.Empty(t, c.Terminate(50*time.Millisecond))
	assert.Empty(t, c.Background())
	assert.False(t, alive("0.0171717"))
}

// Case 13: the end of the child and Terminate at the same moment.
func TestTerminateRacesTheExit(t *testing.T) {
	g := newGroup(t)
	step := stress(3, 1)
	for i := 0; i < 60; i += step {
		c := script(t, g, `exit 7`)
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		assert.Empty(t, c.Terminate(time.Second))
		exit := c.Wait()
		assert.True(t, exit.Code == 7 || exit.Signal == "SIGTERM", "%+v", exit)
		assert.Empty(t, c.Terminate(time.Second), "again is no error")
	}
}

func TestInterruptReachesTheTree(t *testing.T) {
	c := script(t, newGroup(t), `echo ready; sleep 30; echo NOT REACHED`)
	c.out.until(t, "ready")
	c.Interrupt()
	exit := c.Wait()
	assert.Equal(t, "SIGINT", exit.Signal)
	assert.NotContains(t, c.out.String(), "NOT REACHED")
}

// Case 9: what ignores SIGTERM has let go of its port when Terminate returns.
func TestPortIsFreeAfterTerminate(t *testing.T) { portIsFreeAfter(t, newGroup(t)) }

func portIsFreeAfter(t *testing.T, g *Group) {
	port := freePort(t)
	for range 3 {
		c := script(t, g, `trap '' TERM; perl -MIO::Socket::INET -e '$|=1; my $s = IO::Socket::INET->new(LocalAddr=>"127.0.0.1:`+port+`",Listen=>1) or die "taken\n"; print "bound\n"; sleep 60' & wait`)
		c.out.until(t, "bound")
		assert.Empty(t, c.Terminate(100*time.Millisecond))
	}
}

// Case 149: the length of a script has no limit.
func TestLongScripts(t *testing.T) {
	g := newGroup(t)
	for _, size := range []int{131_071, 131_072, 300_000, 3_000_000} {
		head, tail := `: '`, `' ; echo "ok $LINENO"; ls /proc/self/fd | tr '\n' ' '; exit 5`
		c := script(t, g, head+strings.Repeat("x", size-len(head)-len(tail))+tail)
		assert.Equal(t, 5, c.Wait().Code)
		assert.Equal(t, "ok 1\n0 1 2 3 ", c.out.String(), "3 is ls's own")
		assert.Empty(t, c.err.String())
	}
}

// An environment that is too large is named as the reason.
func TestTooLargeEnvironment(t *testing.T) {
	_, err := newGroup(t).Start(Command{Script: `true`, Env: append(testEnv(), "BIG="+strings.Repeat("x", 200_000))})
	require.Error(t, err)
	assert.ErrorContains(t, err, "argument list too long (the environment has 20")
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("x"), 0o600))
	for name, test := range map[string]struct {
		command Command
		want    string
		gone    bool
	}{
		"no program":     {Command{Argv: []string{"nosuchprogram"}, Env: []string{"PATH=/nowhere:/bin"}}, "start nosuchprogram: command not found (PATH=/nowhere:/bin)", false},
		"no file":        {Command{Argv: []string{"/no/such/file"}}, "start /no/such/file: no such file or directory", false},
		"not executable": {Command{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, "permission denied", false},
		"no directory":   {Command{Script: "true", Dir: dir + "/x", Env: testEnv()}, "start bash: working directory " + dir + "/x: no such file or directory", true},
		"file as dir":    {Command{Script: "true", Dir: dir + "/plain", Env: testEnv()}, "not a directory", true},
		"nothing":        {Command{}, "no command given", false},
		"NUL":            {Command{Script: "echo a\x00b", Env: testEnv()}, "NUL byte", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newGroup(t).Start(test.command)
			var start *StartError
			require.ErrorAs(t, err, &start)
			assert.ErrorContains(t, err, test.want)
			assert.Equal(t, test.gone, start.DirMissing)
		})
	}
}

func TestClosedGroup(t *testing.T) {
	g := NewGroup()
	c := script(t, g, `sleep 60`)
	assert.Empty(t, g.Close(time.Second))
	<-c.Ended()
	assert.Empty(t, g.Close(time.Second), "twice is fine")
	_, err := g.Start(Command{Script: "true", Env: testEnv()})
	assert.ErrorIs(t, err, ErrClosed)
}

func TestCloseWhileStarting(t *testing.T) {
	g := NewGroup()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if _, err := g.Start(Command{Script: "sleep 6060", Env: testEnv()}); err != nil {
					assert.ErrorIs(t, err, ErrClosed)
					return
				}
			}
		})
	}
	time.Sleep(30 * time.Millisecond)
	assert.Empty(t, g.Close(0))
	wg.Wait()
	assert.False(t, alive("sleep 6060"))
	assert.Empty(t, g.Processes())
}

// A silent leftover that left the session and the registry is still found by its marker.
func TestCloseFindsDetached(t *testing.T) {
	g := NewGroup()
	c := script(t, g, `setsid sleep 6070 >/dev/null 2>&1 & sleep 0.1`)
	c.Wait()
	require.True(t, alive("sleep 6070"))
	assert.Empty(t, g.Close(0))
	assert.False(t, alive("sleep 6070"))
}

// Case 151, smaller: a program is run right after it was written, while others are started.
func TestTextFileBusy(t *testing.T) {
	g := newGroup(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			dir := t.TempDir()
			for i := range stress(6, 20) {
				file := filepath.Join(dir, strconv.Itoa(w)+"-"+strconv.Itoa(i))
				if !assert.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\nexit 0\n"), 0o755)) {
					return
				}
				p, err := g.Start(Command{Argv: []string{file}, Env: testEnv()})
				if assert.NoError(t, err) {
					assert.Equal(t, 0, p.Wait().Code)
				}
			}
		})
	}
	wg.Wait()
}

// Case 137: a child sees descriptors 0 to 2 and no terminal.
func TestDescriptors(t *testing.T) {
	c := script(t, newGroup(t), `ls /proc/self/fd | tr '\n' ' '; readlink /proc/self/fd/0; : </dev/tty || echo no tty; ps -o pid=,pgid=,sid= $$ | xargs`)
	c.Wait()
	pid := strconv.Itoa(c.PID())
	assert.Equal(t, "0 1 2 3 /dev/null\nno tty\n"+pid+" "+pid+" "+pid+"\n", c.out.String())
}

func TestInputMergeFollowExtra(t *testing.T) {
	g := newGroup(t)
	out := newOutput()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := g.Start(Command{
		Script: `read -r line; echo "out $line"; echo err >&2; echo extra >&3; (sleep 0.3; echo later) &`,
		Env:    testEnv(), Input: true, Stdout: out.sink, Merge: true, Follow: true, Extra: []*os.File{w},
	})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = p.Stdin().WriteString("hello\n")
	require.NoError(t, err)
	p.Wait()
	assert.Equal(t, "out hello\nerr\n", out.String())
	assert.Zero(t, out.ends())
	<-p.Ended()
	assert.Equal(t, "out hello\nerr\nlater\n", out.String(), "followed to the end of the pipe")
	assert.Equal(t, 1, out.ends())
	text := make([]byte, 10)
	n, _ := r.Read(text)
	assert.Equal(t, "extra\n", string(text[:n]))
	assert.ErrorIs(t, p.Signal(os.Kill), os.ErrProcessDone)
}

// Case 129: the executor is not the first to go when memory runs out.
func TestOOMScore(t *testing.T) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Skip("this system has no OOM scores")
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(own)))
	require.NoError(t, err)
	c := script(t, newGroup(t), `sleep 0.05; cat /proc/self/oom_score_adj`)
	c.Wait()
	assert.Equal(t, strconv.Itoa(min(score+500, 1000))+"\n", c.out.String())
}

// Case 22: a flood is carried at the speed of the pipe in one reused buffer.
func TestFlood(t *testing.T) {
	total := 0
	p, err := newGroup(t).Start(Command{Script: `yes | head -c 50000000`, Env: testEnv(), Stdout: func(b []byte) { total += len(b) }})
	require.NoError(t, err)
	assert.Equal(t, 0, p.Wait().Code)
	assert.Equal(t, 50_000_000, total)
}

func BenchmarkTrue(b *testing.B) {
	g := NewGroup()
	defer g.Close(0)
	env := testEnv()
	for b.Loop() {
		p, err := g.Start(Command{Script: `:`, Env: env, Stdout: func([]byte) {}, Stderr: func([]byte) {}})
		if err != nil {
			b.Fatal(err)
		}
		p.Wait()
	}
}

// BenchmarkExec is what the standard library needs for the same.
func BenchmarkExec(b *testing.B) {
	for b.Loop() {
		c := exec.Command("bash", "-c", ":")
		c.Stdout, c.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	g := NewGroup()
	defer g.Close(0)
	p, err := g.Start(Command{Script: `sleep 100`, Env: testEnv()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.tree.scan()
	}
}

// stress is how much is done: little, or all with EXECUTOR_STRESS.
func stress[T any](little, all T) T {
	if os.Getenv("EXECUTOR_STRESS") != "" {
		return all
	}
	return little
}
