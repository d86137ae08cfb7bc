package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// configured is an open keeper with a launch policy, and a group of it.
func configured(t *testing.T, l Launch) (*Keeper, *Group) {
	t.Helper()
	k := NewKeeper(Options{})
	require.NoError(t, k.Configure(l))
	k.Open("")
	t.Cleanup(func() { assert.Empty(t, k.Close()) })
	g := k.NewGroup()
	t.Cleanup(func() { assert.Empty(t, g.Close(0)) })
	return k, g
}

func printed(t *testing.T, g *Group, text string) string {
	t.Helper()
	c := script(t, g, text)
	require.Zero(t, c.Wait().Code, c.out.String())
	return c.out.String()
}

// Every child has its limits, and cannot raise them; the executor does not have them.
func TestLimits(t *testing.T) {
	var before, after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	k, g := configured(t, Launch{Limits: []Limit{{"nofile", 123}, {"core", 0}, {"cpu", 77}, {"fsize", 1 << 20}, {"as", 4 << 30}, {"nproc", 5000}}, Nice: 3})
	for range 20 {
		assert.Equal(t, "123 123 0 77 1024 4194304 5000 3\n", printed(t, g, `echo $(ulimit -Sn; ulimit -Hn; ulimit -c; ulimit -t; ulimit -f; ulimit -v; ulimit -u; nice)`))
	}
	assert.Equal(t, "no\n", printed(t, g, `if [ $EUID != 0 ]; then ulimit -n 124 2>/dev/null; else false; fi && echo yes || echo no`))
	c := script(t, g, `head -c 2000000 /dev/zero >`+filepath.Join(t.TempDir(), "file"))
	assert.Equal(t, 128+int(unix.SIGXFSZ), c.Wait().Code)
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &after))
	assert.Equal(t, before, after)
	assert.Contains(t, strings.Join(k.Means().Launch, "\n"), "nofile=123")
	assert.True(t, k.launch.held, "nothing that a child starts can be without")
	assert.Nil(t, configuredLabels(t, g), "all have labels all the same")
}

// configuredLabels is nil when a child has a label.
func configuredLabels(t *testing.T, g *Group) error {
	c := script(t, g, `sleep 60 & wait`)
	defer c.Kill()
	require.Eventually(t, func() bool { return len(c.Background()) == 1 }, 10*time.Second, 5*time.Millisecond)
	r, _ := rowOf(c.PID())
	if !g.labelled()(labelOf(r, ownSession())) {
		return errors.New("no label")
	}
	return nil
}

// What is held at its start ends as any other child does, at any moment, and its exit status is its own.
func TestLimitsUnderLoad(t *testing.T) {
	_, g := configured(t, Launch{Limits: []Limit{{"nofile", 200}}})
	var wg sync.WaitGroup
	var wrong atomic.Int64
	for range 4 {
		wg.Go(func() {
			for range stress(3, 8) {
				p, err := g.Start(Command{Script: `[ $(ulimit -n) = 200 ] && exit 7`, Env: testEnv()})
				if err != nil || p.Wait().Code != 7 {
					wrong.Add(1)
				}
				p, err = g.Start(Command{Script: `sleep 60`, Env: testEnv()})
				if err != nil || len(p.Kill()) > 0 || p.Wait().Signal != "SIGKILL" {
					wrong.Add(1)
				}
			}
		})
	}
	wg.Wait()
	assert.Zero(t, wrong.Load())
}

// Where a child may not be held its limits are set a moment later, and that is said.
func TestLimitsWithoutHolding(t *testing.T) {
	k, g := configured(t, Launch{Limits: []Limit{{"nofile", 123}}})
	k.launch.held = false
	assert.Equal(t, "123\n", printed(t, g, `sleep 0.1; ulimit -n`))
	assert.Contains(t, strings.Join(k.Means().Launch, "\n"), "a moment after")
}

// Case 129, by configuration.
func TestOOMScoreByConfiguration(t *testing.T) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	require.NoError(t, err)
	score, err := strconv.Atoi(strings.TrimSpace(string(own)))
	require.NoError(t, err)
	for given, want := range map[int]int{-1: 0, 0: 500, 300: 300, 1000: 1000} {
		limits := []Limit{{"core", 0}}
		if given == 300 { // not held
			limits = nil
		}
		_, g := configured(t, Launch{OOMScore: given, Limits: limits})
		got := printed(t, g, `sleep 0.05; cat /proc/self/oom_score_adj`)
		assert.Equal(t, strconv.Itoa(min(score+want, 1000))+"\n", got, "%d", given)
	}
}

func nobody(t *testing.T) *user.User {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run programs as others")
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("there is no nobody here")
	}
	return u
}

// openDir is a directory that everybody may enter and write.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "spawn")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// Children run as another user: with that user's groups and identity, within the limits, and they and
// what they start are ended as others are.
func TestRunAs(t *testing.T) {
	u := nobody(t)
	dir := openDir(t)
	policy := Launch{RunAs: &RunAs{User: "nobody", Home: dir}, Nice: 2}
	withLimit := policy
	withLimit.Limits = []Limit{{"nproc", 3000}}
	nproc := "3000"
	if err := NewKeeper(Options{}).Configure(withLimit); err != nil {
		require.ErrorContains(t, err, "any for another user, takes CAP_SYS_RESOURCE")
		text, err := exec.Command("bash", "-c", "ulimit -u").Output()
		require.NoError(t, err)
		nproc = strings.TrimSpace(string(text))
	} else {
		policy = withLimit
	}
	k, g := configured(t, policy)
	t.Setenv("HOME", "/root")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/0")
	t.Setenv("PATH", "/usr/local/bin:"+os.Getenv("PATH"))
	env := k.Environment(k.Login(), Policy{}, map[string]string{"X": "1"})
	out := newOutput()
	run := func(text string) (Exit, string) {
		out = newOutput()
		p, err := g.Start(Command{Script: text, Env: env, Dir: dir, Stdout: out.sink, Merge: true})
		require.NoError(t, err)
		e := p.Wait()
		return e, out.String()
	}
	_, text := run(`echo $(id -u; id -g; id -G) $HOME $USER $LOGNAME $X; pwd; touch made; ulimit -u; nice`)
	ids, err := u.GroupIds()
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("%s %s %s %s nobody nobody 1\n%s\n%s\n2\n", u.Uid, u.Gid, strings.Join(ids, " "), dir, dir, nproc), text)
	_, text = run(`env`)
	assert.NotContains(t, text, "/root")
	assert.NotContains(t, text, "XDG_RUNTIME_DIR")
	e, _ := run(`cat /etc/shadow >/dev/null`)
	assert.Equal(t, 1, e.Code)

	// Ended with all that left the group, the environment and the session.
	number := unique()
	tree := strings.ReplaceAll(`env -i setsid bash -c "(sleep 7001 & ) ; sleep 7001" & sleep 7001`, "7001", number)
	p, err := g.Start(Command{Script: tree, Env: env, Dir: dir})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(p.Background()) >= 2 }, 10*time.Second, 5*time.Millisecond)
	assert.Empty(t, p.Terminate(time.Second))
	assert.False(t, alive("sleep "+number))
	_, text = run(`kill -9 $PPID 2>&1; echo still`)
	assert.Contains(t, text, "still")
}

func TestRunAsGroups(t *testing.T) {
	u := nobody(t)
	for _, c := range []struct {
		as   RunAs
		want string // uid, gid, all groups
	}{
		{RunAs{User: "nobody", Groups: []string{}}, u.Uid + " " + u.Gid + " " + u.Gid},
		{RunAs{User: "nobody", Groups: []string{"4", "20"}}, u.Uid + " " + u.Gid + " " + u.Gid + " 4 20"},
		{RunAs{User: "nobody", Group: "daemon", Groups: []string{}}, u.Uid + " 1 1"},
		{RunAs{User: "54321", Group: "54322"}, "54321 54322 54322"},
	} {
		_, g := configured(t, Launch{RunAs: &c.as})
		out := newOutput()
		p, err := g.Start(Command{Script: `echo $(id -u; id -g; id -G)`, Env: testEnv(), Dir: "/", Stdout: out.sink})
		require.NoError(t, err)
		p.Wait()
		assert.Equal(t, c.want+"\n", out.String(), "%+v", c.as)
	}
}

// A directory on the way that the user may not enter is named.
func TestRunAsUnreachableDirectory(t *testing.T) {
	nobody(t)
	_, g := configured(t, Launch{RunAs: &RunAs{User: "nobody"}})
	outer := openDir(t)
	require.NoError(t, os.Chmod(outer, 0o700))
	inner := filepath.Join(outer, "a", "b")
	require.NoError(t, os.MkdirAll(inner, 0o777))
	_, err := g.Start(Command{Script: `true`, Env: testEnv(), Dir: inner})
	assert.ErrorContains(t, err, "nobody (uid 65534")
	assert.ErrorContains(t, err, "may not enter "+outer+";")
	var e *StartError
	require.ErrorAs(t, err, &e)
	assert.False(t, e.DirMissing)
}

// The errors come at the start of the program.
func TestConfigureRefuses(t *testing.T) {
	for says, l := range map[string]Launch{
		"there is no such account":             {RunAs: &RunAs{User: "no-such-user-here"}},
		"give it as USER:GROUP":                {RunAs: &RunAs{User: "54321"}},
		`there is no group "no-such-group"`:    {RunAs: &RunAs{User: "root", Group: "no-such-group"}},
		"no absolute path":                     {RunAs: &RunAs{User: "root", Home: "here"}},
		"want -20 to 19":                       {Nice: 20},
		"want at most 1000":                    {OOMScore: 1001},
		"there are as, core, cpu":              {Limits: []Limit{{"locks", 5}}},
		"launch prefix":                        {Prefix: []string{"no-such-program-here", "--"}},
		"set the limit nofile=999999999999999": {Limits: []Limit{{"nofile", 999999999999999}}},
	} {
		err := NewKeeper(Options{}).Configure(l)
		assert.ErrorContains(t, err, says)
	}
	k := NewKeeper(Options{})
	k.Open("")
	defer k.Close()
	assert.ErrorContains(t, k.Configure(Launch{}), "before Open")
}

// Who may not become another is told what to do about it.
func TestRunAsWithoutRights(t *testing.T) {
	if os.Getenv("TEST_AS_NOBODY") != "" {
		err := NewKeeper(Options{}).Configure(Launch{RunAs: &RunAs{User: "root"}})
		assert.ErrorContains(t, err, "run as root (uid 0, gid 0): operation not permitted; run this program as root, or give it CAP_SETUID")
		k, g := configured(t, Launch{RunAs: &RunAs{User: "nobody"}, Limits: []Limit{{"nofile", 100}}, Nice: 1})
		assert.Equal(t, "65534 100 1\n", printed(t, g, `echo $(id -u; ulimit -n; nice)`), "to be oneself takes nothing")
		assert.True(t, k.launch.held)
		return
	}
	asNobody(t, "TestRunAsWithoutRights")
}

// The hook is asked once for each start, sees the whole and may change it.
func TestHook(t *testing.T) {
	var calls atomic.Int64
	dir := t.TempDir()
	_, g := configured(t, Launch{Hook: func(l *Launching) error {
		calls.Add(1)
		if strings.Contains(strings.Join(l.Argv, " "), "forbidden") {
			return errors.New("not here")
		}
		l.Argv = append([]string{"env", "ADDED=yes"}, l.Argv...)
		l.Env = append(l.Env, "ALSO=this")
		l.Dir = dir
		return nil
	}})
	given := testEnv()
	c, err := g.Start(Command{Script: `echo $ADDED $ALSO; pwd`, Env: given, Stdout: newOutput().sink})
	require.NoError(t, err)
	assert.Equal(t, `echo $ADDED $ALSO; pwd`, c.Command(), "it is shown as it was given")
	c.Wait()
	assert.Equal(t, "yes this\n"+dir+"\n", printed(t, g, `echo $ADDED $ALSO; pwd`))
	assert.Equal(t, testEnv(), given, "the caller's is not changed")
	_, err = g.Start(Command{Script: `forbidden`, Env: testEnv()})
	var e *StartError
	require.ErrorAs(t, err, &e)
	assert.ErrorContains(t, err, "start bash: not here")
	assert.EqualValues(t, 3, calls.Load())
	assert.Equal(t, strings.Repeat("x", 200_000)+"\n", printed(t, g, `echo `+strings.Repeat("x", 200_000)), "a script too long for an argument")
}

// The prefix is in front of every command, is found in the executor's PATH, and finds the command itself.
func TestPrefix(t *testing.T) {
	bin, inside := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "box"), []byte("#!/bin/sh\nshift; BOXED=yes PATH=$INSIDE:$PATH exec \"$@\"\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(inside, "tool"), []byte("#!/bin/sh\necho $BOXED \"$@\"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	k, g := configured(t, Launch{Prefix: []string{"box", "--"}, Limits: []Limit{{"nofile", 99}}})
	assert.Equal(t, "yes 99\n", printed(t, g, `echo $BOXED $(ulimit -n)`))
	out := newOutput()
	p, err := g.Start(Command{Argv: []string{"tool", "a b", "c"}, Env: []string{"PATH=/usr/bin:/bin", "INSIDE=" + inside}, Stdout: out.sink})
	require.NoError(t, err)
	p.Wait()
	assert.Equal(t, "yes a b c\n", out.String())
	assert.Contains(t, strings.Join(k.Means().Launch, "\n"), filepath.Join(bin, "box"))
	require.NoError(t, os.Remove(filepath.Join(bin, "box")))
	_, err = g.Start(Command{Script: `true`, Env: testEnv()})
	assert.ErrorContains(t, err, "start box: no such file")
}

// A policy holds for children of a keeper that is not open, too.
func TestPolicyBeforeOpen(t *testing.T) {
	k := NewKeeper(Options{})
	require.NoError(t, k.Configure(Launch{Limits: []Limit{{"nofile", 98}}}))
	g := k.NewGroup()
	defer g.Close(0)
	assert.Equal(t, "98\n", printed(t, g, `ulimit -n`))
}
