package spawn

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// trees are commands that leave processes behind, each in another way. 7001 is a number of seconds to be
// known by; each says when it is there.
var trees = map[string]string{
	"plain":         `sleep 7001 & echo ready; wait`,
	"own session":   `setsid sleep 7001 & echo ready; wait`,
	"job control":   `set -m; sleep 7001 & echo ready; wait`,
	"ignores TERM":  `trap '' TERM; sleep 7001 & echo ready; while :; do wait; done`,
	"stopped":       `sleep 7001 & kill -STOP $!; echo ready; wait`,
	"double fork":   `perl -e 'use POSIX; fork and exit; setsid(); fork and exit; print "ready\n"; exec q(sleep),7001'; sleep 60`,
	"leaves no way": daemon + `; echo ready; sleep 60`,
	"alone":         daemon + `; echo ready`,
}

// daemon leaves the session and the group, clears its environment, closes its output, and its parent ends.
const daemon = `env -i /usr/bin/perl -e 'use POSIX; pipe(R,W); if (fork) { close W; <R>; exit } close R; setsid(); fork and exit; open(STDIN,"<","/dev/null"); open(STDOUT,">","/dev/null"); open(STDERR,">","/dev/null"); $^F=0; close W; exec q(sleep),7001'`

// keeper is one that is closed with the test, in what is left of a life on the state directory.
func newKeeper(t *testing.T, dir string, o Options) (*Keeper, Report) {
	t.Helper()
	k := NewKeeper(o)
	report := k.Open(dir)
	t.Cleanup(func() { assert.Empty(t, k.Close()) })
	return k, report
}

func begin(t *testing.T, g *Group, text string) child {
	t.Helper()
	c := script(t, g, text)
	c.out.until(t, "ready")
	return c
}

// helperLife is an executor that is going to be killed: it starts the commands it reads, one a line as
// JSON, each in a group of its own, and says when each is ready.
func helperLife() {
	var o Options
	o.NoCgroup = os.Getenv("TEST_LIFE_CGROUP") == ""
	k := NewKeeper(o)
	report := k.Open(os.Getenv("TEST_LIFE"))
	text, _ := json.Marshal(k.Means())
	fmt.Printf("%s\n%s\n", text, describeReport(report))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var command string
		_ = json.Unmarshal(lines.Bytes(), &command)
		ready := make(chan struct{})
		var once sync.Once
		p, err := k.NewGroup().Start(Command{Script: command, Env: testEnv(), Stdout: func(b []byte) {
			if strings.Contains(string(b), "ready") {
				once.Do(func() { close(ready) })
			}
		}})
		if err != nil {
			fmt.Println("error", err)
			continue
		}
		<-ready
		fmt.Println("started", p.PID())
	}
}

func describeReport(r Report) string {
	return fmt.Sprintf("ended %d survivors %d left alone %d problem %v", len(r.Ended), len(r.Survivors), len(r.LeftAlone), r.Problem)
}

// life is such an executor.
type life struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    *os.File
	out   *bufio.Scanner
	means Means
}

func newLife(t *testing.T, dir string, cgroup bool) *life {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return beginLife(t, dir, cgroup, exec.Command(self, "-test.run=^TestLife$"))
}

func beginLife(t *testing.T, dir string, cgroup bool, cmd *exec.Cmd) *life {
	t.Helper()
	l := &life{t: t, cmd: cmd}
	l.cmd.Env = append(os.Environ(), "TEST_LIFE="+dir)
	if cgroup {
		l.cmd.Env = append(l.cmd.Env, "TEST_LIFE_CGROUP=1")
	}
	in, err := l.cmd.StdinPipe()
	require.NoError(t, err)
	l.in = in.(*os.File)
	out, err := l.cmd.StdoutPipe()
	require.NoError(t, err)
	l.cmd.Stderr = os.Stderr
	require.NoError(t, l.cmd.Start())
	t.Cleanup(func() { l.kill() })
	l.out = bufio.NewScanner(out)
	require.NoError(t, json.Unmarshal([]byte(l.line()), &l.means))
	l.line()
	return l
}

func (l *life) line() string {
	require.True(l.t, l.out.Scan(), "the helper has ended")
	return l.out.Text()
}

func (l *life) start(command string) int {
	text, _ := json.Marshal(command)
	_, err := l.in.WriteString(string(text) + "\n")
	require.NoError(l.t, err)
	word, rest, _ := strings.Cut(l.line(), " ")
	require.Equal(l.t, "started", word, rest)
	pid, err := strconv.Atoi(rest)
	require.NoError(l.t, err)
	return pid
}

// kill is kill -9.
func (l *life) kill() {
	if l.cmd.ProcessState == nil {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
	}
}

// TestLife is no test: it is the helper's life.
func TestLife(t *testing.T) {
	if os.Getenv("TEST_LIFE") == "" {
		t.Skip("runs as a helper of others")
	}
	helperLife()
}

// hasCgroup says whether this test may make control groups.
func hasCgroup(t *testing.T) bool {
	k := NewKeeper(Options{})
	k.Open("")
	defer k.Close()
	return k.Means().Cgroup != ""
}

// Cases 7, 8, 146 after a kill -9: the child is gone at once, and its tree after the next start, which
// tells of each process. With a control group and without.
func TestKilledExecutorLeavesNothing(t *testing.T) {
	for _, cgroup := range []bool{false, true} {
		t.Run(map[bool]string{false: "without control group", true: "with control group"}[cgroup], func(t *testing.T) {
			t.Parallel()
			if cgroup && !hasCgroup(t) {
				t.Skip("no control groups here")
			}
			dir := t.TempDir()
			l := newLife(t, dir, cgroup)
			require.True(t, l.means.ParentDeath && l.means.Labels && l.means.Adoption, "%+v", l.means)
			require.Equal(t, cgroup, l.means.Cgroup != "", "%+v", l.means)
			numbers := map[string]string{}
			var children []int
			for name, text := range trees {
				numbers[name] = unique()
				pid := l.start(strings.ReplaceAll(text, "7001", numbers[name]))
				if name != "alone" {
					children = append(children, pid)
				}
			}
			for name, number := range numbers {
				require.True(t, eventually(func() bool { return alive("sleep " + number) }), name)
			}
			l.kill()
			assert.True(t, eventually(func() bool {
				return !slices.ContainsFunc(children, func(pid int) bool { r, ok := rowOf(pid); return ok && !r.dead })
			}), "the children themselves end with the executor")

			_, report := newKeeper(t, dir, Options{NoCgroup: !cgroup, Grace: 300 * time.Millisecond})
			require.NoError(t, report.Problem)
			for name, number := range numbers {
				assert.False(t, alive("sleep "+number), name)
				assert.True(t, slices.ContainsFunc(report.Ended, func(m Member) bool { return strings.Contains(m.Command, "sleep "+number) }), "%s is reported: %v", name, report.Ended)
			}
			assert.Empty(t, report.Survivors)
			if cgroup {
				assert.NoDirExists(t, filepath.Join(l.means.Cgroup, "x"))
			}

			again, report := newKeeper(t, dir, Options{NoCgroup: true})
			assert.Empty(t, report.Ended, "a second time there is nothing")
			assert.True(t, again.Means().Labels)
		})
	}
}

func eventually(f func() bool) bool { return poll(10*time.Second, f) }

// An executor on another state directory, or on a copy of this one, is another one: its children are not touched.
func TestSweepLeavesOthersAlone(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	l := newLife(t, dir, false)
	number := unique()
	l.start(strings.ReplaceAll(daemon+`; echo ready; sleep 60`, "7001", number))
	text, err := os.ReadFile(filepath.Join(dir, instanceFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(copied, instanceFile), text, 0o600))
	for _, other := range []string{copied, t.TempDir(), ""} {
		_, report := newKeeper(t, other, Options{NoCgroup: true})
		assert.Equal(t, Report{}, report)
	}
	assert.True(t, alive("sleep "+number))

	l.kill()
	_, report := newKeeper(t, dir, Options{NoCgroup: true, Grace: time.Millisecond})
	assert.NotEmpty(t, report.Ended)
	assert.False(t, alive("sleep "+number))
}

// markerOf is the marker in the environment of a process, with its name.
func markerOf(t *testing.T, pid int) string {
	var marker string
	require.True(t, eventually(func() bool { // in the middle of an exec there is nothing
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		require.NoError(t, err)
		for entry := range strings.SplitSeq(string(environ), "\x00") {
			if strings.HasPrefix(entry, Marker+"=") {
				marker = entry
			}
		}
		return marker != ""
	}))
	return marker
}

// A process that was given a copy of the environment, as a service manager or a terminal multiplexer
// gives it, is nobody's descendant: it is told of and left alone.
func TestSweepLeavesCopiedMarkersAlone(t *testing.T) {
	dir := t.TempDir()
	l := newLife(t, dir, false)
	pid := l.start(`echo ready; exec sleep ` + unique())
	marker := markerOf(t, pid)
	l.kill()

	number := unique()
	users := exec.Command("setsid", "sleep", number)
	users.Env = []string{marker, "PATH=" + os.Getenv("PATH")}
	require.NoError(t, users.Start())
	defer func() {
		require.NoError(t, users.Process.Kill())
		_ = users.Wait()
	}()
	name := fmt.Sprintf("/proc/%d/cmdline", users.Process.Pid)
	require.True(t, eventually(func() bool { // setsid has become it
		text, _ := os.ReadFile(name)
		return strings.HasPrefix(string(text), "sleep")
	}))
	_, report := newKeeper(t, dir, Options{NoCgroup: true, Grace: time.Millisecond})
	assert.True(t, alive("sleep "+number))
	require.Len(t, report.LeftAlone, 1, "%+v", report)
	assert.Equal(t, "sleep "+number, report.LeftAlone[0].Command)
	assert.False(t, slices.ContainsFunc(report.Ended, func(m Member) bool { return m.PID == users.Process.Pid }))
}

// Where there are no labels the marker is looked for, in what orphans have become.
func TestSweepByMarker(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	l := beginLife(t, dir, false, exec.Command("bash", "-c", `ulimit -x 1000 && exec "$0" -test.run='^TestLife$'`, self))
	require.False(t, l.means.Labels, "a hard limit is in the way")
	marked, other := unique(), unique()
	for _, name := range []string{"plain", "own session", "job control", "ignores TERM", "double fork"} {
		l.start(strings.ReplaceAll(trees[name], "7001", marked))
	}
	pid := l.start(`echo ready; exec sleep ` + unique())
	marker := markerOf(t, pid)
	l.kill()
	users := exec.Command("setsid", "sleep", other) // with us as its parent, who are no orphanage
	users.Env = []string{marker, "PATH=" + os.Getenv("PATH")}
	require.NoError(t, users.Start())
	defer func() {
		require.NoError(t, users.Process.Kill())
		_ = users.Wait()
	}()
	i, fresh, err := readInstance(dir)
	require.NoError(t, err)
	require.False(t, fresh)
	report := sweep(i, newLabels(i.number()), false, 300*time.Millisecond)
	assert.GreaterOrEqual(t, len(report.Ended), 5, "%+v", report)
	assert.Empty(t, report.Survivors)
	assert.False(t, alive("sleep "+marked))
	assert.True(t, alive("sleep "+other))
	assert.Len(t, report.LeftAlone, 1)
}

// An executor that was started by a command of the one before does not end itself, nor its parents.
func TestSweepByDescendant(t *testing.T) {
	dir := t.TempDir()
	l := newLife(t, dir, hasCgroup(t))
	number := unique()
	self, err := os.Executable()
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "out")
	// The one before is killed while this one starts.
	restart := fmt.Sprintf(`setsid sh -c 'sleep %s & sleep 1; TEST_LIFE=%s TEST_LIFE_CGROUP=1 setsid %s -test.run="^TestLife$" </dev/null >%s; echo lives >>%s' & echo ready`, number, dir, self, out, out)
	l.start(restart)
	l.kill()
	assert.True(t, eventually(func() bool { text, _ := os.ReadFile(out); return strings.Contains(string(text), "lives") }))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Contains(t, string(text), "survivors 0", string(text))
	assert.False(t, alive("sleep "+number), "what else it had left is ended")
	_, report := newKeeper(t, dir, Options{Grace: time.Millisecond}) // tidies up
	assert.Empty(t, report.Survivors)
}

// Case 8: also what cleared its environment, left session and group, closed its pipes and lost its parent
// ends with its tree, and only with its own.
func TestDaemonEndsWithItsTree(t *testing.T) {
	for name, keeper := range map[string]func(t *testing.T) *Keeper{
		"no keeper": func(t *testing.T) *Keeper { return nil },
		"keeper":    func(t *testing.T) *Keeper { k, _ := newKeeper(t, "", Options{NoCgroup: true}); return k },
		"cgroup":    func(t *testing.T) *Keeper { k, _ := newKeeper(t, "", Options{}); return k },
	} {
		t.Run(name, func(t *testing.T) {
			g := keeper(t).NewGroup()
			defer func() { assert.Empty(t, g.Close(0)) }()
			mine, others, left := unique(), unique(), unique()
			a := begin(t, g, strings.ReplaceAll(daemon+`; echo ready; sleep 60`, "7001", mine))
			begin(t, g, strings.ReplaceAll(daemon+`; echo ready; sleep 60`, "7001", others))
			begin(t, g, strings.ReplaceAll(daemon+`; echo ready`, "7001", left)).Wait()
			require.True(t, eventually(func() bool { return alive("sleep "+mine) && alive("sleep "+others) && alive("sleep "+left) }))
			assert.True(t, slices.ContainsFunc(a.Background(), func(m Member) bool { return m.Command == "sleep "+mine }))
			assert.Empty(t, a.Terminate(300*time.Millisecond))
			assert.False(t, alive("sleep "+mine))
			assert.True(t, alive("sleep "+others))
			assert.Empty(t, g.Close(300*time.Millisecond))
			assert.False(t, alive("sleep "+others))
			assert.False(t, alive("sleep "+left), "of a command that has long returned")
		})
	}
}

// Cases 7 to 10 once more, in groups that are kept.
func TestTerminateWithKeeper(t *testing.T) {
	for name, o := range map[string]Options{"labels": {NoCgroup: true}, "cgroup": {}} {
		t.Run(name, func(t *testing.T) {
			k, _ := newKeeper(t, "", o)
			kept := func(t *testing.T) *Group {
				g := k.NewGroup()
				t.Cleanup(func() { assert.Empty(t, g.Close(0)) })
				return g
			}
			t.Run("tree", func(t *testing.T) { endsTheWholeTree(t, kept) })
			t.Run("later", func(t *testing.T) { nothingHappensAfter(t, kept(t)) })
			t.Run("port", func(t *testing.T) { portIsFreeAfter(t, kept(t)) })
		})
	}
}

// Killed in the middle of many starts: none is left that has not got its label yet.
func TestKilledWhileStarting(t *testing.T) {
	found := 0
	for _, round := range stress([]int{0, 4}, []int{0, 1, 2, 3, 4, 5}) {
		dir := t.TempDir()
		l := newLife(t, dir, false)
		number := unique()
		var lines strings.Builder
		for range 40 {
			text, _ := json.Marshal(strings.ReplaceAll(`echo ready; setsid env -i sleep 7001 >/dev/null 2>&1 &`, "7001", number))
			lines.WriteString(string(text) + "\n")
		}
		_, err := l.in.WriteString(lines.String())
		require.NoError(t, err)
		for range 1 + 4*round {
			l.line()
		}
		l.kill()
		_, report := newKeeper(t, dir, Options{NoCgroup: true, Grace: time.Millisecond})
		assert.False(t, alive("sleep "+number))
		found += len(report.Ended)
	}
	assert.NotZero(t, found, "the test is about what is found")
}

// Who rids himself even of the label comes to the executor as an orphan, and ends with it.
func TestStraysEndWithTheKeeper(t *testing.T) {
	k, _ := newKeeper(t, "", Options{NoCgroup: true})
	g := k.NewGroup()
	number := unique()
	begin(t, g, `ulimit -S -x unlimited; `+strings.ReplaceAll(daemon, "7001", number)+`; echo ready`).Wait()
	require.Eventually(t, func() bool { return alive("sleep " + number) }, 10*time.Second, 5*time.Millisecond)
	assert.Empty(t, g.Close(0))
	require.True(t, alive("sleep "+number), "nothing says whose it is")
	assert.Empty(t, k.Close())
	assert.False(t, alive("sleep "+number))
	assert.Empty(t, k.Close(), "twice is fine")
	assert.Equal(t, Means{}, k.Means())
}

// The control group goes with the group, and the keeper's with the keeper; nothing is left of either.
func TestCgroupsAreRemoved(t *testing.T) {
	k, _ := newKeeper(t, t.TempDir(), Options{})
	if k.Means().Cgroup == "" {
		t.Skip("no control groups here: " + k.Means().NoCgroup)
	}
	for range 3 {
		g := k.NewGroup()
		c := begin(t, g, `mkdir -p $(pwd)/x; echo ready; sleep 60`)
		assert.True(t, k.cgroup.pids()[c.PID()])
		assert.Empty(t, g.Close(0))
		assert.Empty(t, g.Close(0))
	}
	entries, err := os.ReadDir(k.Means().Cgroup)
	require.NoError(t, err)
	assert.False(t, slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() }))
	path := k.Means().Cgroup
	assert.Empty(t, k.Close())
	assert.NoDirExists(t, path)
}

// A control group that takes nobody in is done without.
func TestCgroupThatRefuses(t *testing.T) {
	k, _ := newKeeper(t, "", Options{})
	if k.Means().Cgroup == "" {
		t.Skip("no control groups here: " + k.Means().NoCgroup)
	}
	g := k.NewGroup()
	require.NotNil(t, g.home())
	g.mu.Lock()
	require.NoError(t, os.WriteFile(filepath.Join(g.cgroup.path, "cgroup.type"), []byte("threaded"), 0))
	require.NoError(t, os.Mkdir(filepath.Join(g.cgroup.path, "x"), 0o755)) // invalid: of a domain below a threaded one
	x, err := newCgroup(g.cgroup.path, "x")
	require.NoError(t, err)
	whole := g.cgroup
	g.cgroup = x
	g.mu.Unlock()
	assert.Equal(t, 3, script(t, g, `exit 3`).Wait().Code)
	assert.True(t, g.homeless)
	_, err = g.Start(Command{Argv: []string{"/no/such/program"}})
	assert.ErrorContains(t, err, "no such file")
	assert.Empty(t, g.Close(0))
	whole.remove()
	assert.NoDirExists(t, whole.path)
}

// A child ends with the executor, not with a thread of it: the runtime ends those of goroutines that are
// locked to them.
func TestChildrenOutliveThreads(t *testing.T) {
	k, _ := newKeeper(t, "", Options{NoCgroup: true})
	g := k.NewGroup()
	var c child
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // and never unlocked
		c = begin(t, g, `echo ready; sleep 60`)
	})
	wg.Wait()
	for range 20 { // a thread more or less, as time goes by
		wg.Go(runtime.LockOSThread)
	}
	wg.Wait()
	select {
	case <-c.Exited():
		t.Fatalf("the child has ended: %+v", c.Wait())
	case <-time.After(300 * time.Millisecond):
	}
	assert.Empty(t, g.Close(time.Second))
	assert.Equal(t, "SIGTERM", c.Wait().Signal)
}

// Many starts at once, with labels that are all different and an own limit that is as it was.
func TestLabels(t *testing.T) {
	if !labelsWork() {
		t.Skip("no labels here")
	}
	k, _ := newKeeper(t, "", Options{NoCgroup: true})
	each := stress(3, 8)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for _, g := range []*Group{k.NewGroup(), k.NewGroup(), NewGroup()} {
		defer func() { assert.Empty(t, g.Close(0)) }()
		for range 4 {
			wg.Go(func() {
				for range each {
					c := script(t, g, `ulimit -S -x`)
					assert.Equal(t, 0, c.Wait().Code)
					mu.Lock()
					assert.False(t, seen[c.out.String()], c.out.String())
					seen[c.out.String()] = true
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	assert.Len(t, seen, 3*4*each)
	assert.NotContains(t, seen, "unlimited\n")
	var own unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &own))
	assert.Zero(t, toLabel(own.Cur), "our own")
}

// A child that has not become its program yet has all that is open here; it belongs to its own tree only.
func TestStartingChildIsNoHolder(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStartingHelper$")
	cmd.Env = append(os.Environ(), "TEST_STARTING=1")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pipes := []uint64{inodeOf(w)}
	pid := cmd.Process.Pid
	// It is our own program still, as between fork and exec.
	assert.True(t, starting(pid))
	assert.False(t, holds(pid, pipes))
	_, err = in.Write([]byte("go\n"))
	require.NoError(t, err)
	assert.True(t, eventually(func() bool { return holds(pid, pipes) }), "a program that has it does hold it")
	assert.False(t, starting(pid))

	// A tree with labels goes by them: another one's child is no member, whatever it has open.
	labels := newLabels(random32())
	tree := &tree{proof: labelProof(labels, func(l uint64) bool { return l == 1 }), known: map[int]uint64{}, pipes: pipes, marker: "none"}
	row, ok := rowOf(pid)
	require.True(t, ok)
	assert.True(t, tree.claims(row, os.Getpid(), ownSession()), "without a label the pipe speaks for it")
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: labels.block(), Max: unix.RLIM_INFINITY}, nil))
	assert.False(t, tree.claims(row, os.Getpid(), ownSession()))
}

// TestStartingHelper is no test: it becomes another program when it is told to.
func TestStartingHelper(t *testing.T) {
	if os.Getenv("TEST_STARTING") == "" {
		t.Skip("runs as a helper of another")
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	require.NoError(t, syscall.Exec(sleep, []string{"sleep", "60"}, os.Environ()))
}

// The state file: kept from life to life, made anew when it is damaged or was copied, and for its owner only.
func TestInstanceFile(t *testing.T) {
	dir := t.TempDir()
	i, fresh, err := readInstance(dir)
	require.NoError(t, err)
	assert.True(t, fresh)
	i.cgroup = "/sys/fs/cgroup/x"
	require.NoError(t, i.write(dir))
	again, fresh, err := readInstance(dir)
	require.NoError(t, err)
	assert.False(t, fresh)
	assert.Equal(t, i, again)
	info, err := os.Stat(filepath.Join(dir, instanceFile))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	whole, err := os.ReadFile(filepath.Join(dir, instanceFile))
	require.NoError(t, err)
	for cut := range len(whole) {
		f, err := os.OpenFile(filepath.Join(dir, instanceFile), os.O_WRONLY|os.O_TRUNC, 0)
		require.NoError(t, err)
		_, err = f.Write(whole[:cut])
		require.NoError(t, err)
		require.NoError(t, f.Close())
		damaged, fresh, err := readInstance(dir)
		require.NoError(t, err)
		assert.True(t, fresh)
		assert.NotEqual(t, i.id, damaged.id)
	}
	_, report := newKeeper(t, filepath.Join(dir, "gone"), Options{NoCgroup: true})
	assert.ErrorContains(t, report.Problem, "will not be found again")
}

// BenchmarkTrueKept is BenchmarkTrue with all that a keeper does.
func BenchmarkTrueKept(b *testing.B) {
	k := NewKeeper(Options{})
	k.Open("")
	defer k.Close()
	g := k.NewGroup()
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
