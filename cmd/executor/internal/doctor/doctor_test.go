package doctor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func statuses(reports []Report) map[string]Status {
	m := map[string]Status{}
	for _, r := range reports {
		m[r.Name] = r.Status
	}
	return m
}

// What a check needs comes first, and what cannot be looked at says why: the first
// reason, not a chain of them.
func TestRunKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order atomic.Int32
		at := func(want int32, r Result) func(context.Context) Result {
			return func(context.Context) Result {
				assert.Equal(t, want, order.Add(1))
				return r
			}
		}
		wait := func(ctx context.Context) Result {
			<-time.After(time.Second)
			return at(3, ok("c"))(ctx)
		}
		reports := Run(t.Context(), []Check{
			{Name: "last", After: []string{"c", "no such check"}, Run: at(4, warn("r", "w"))},
			{Name: "c", Needs: []string{"b"}, Run: wait},
			{Name: "b", Needs: []string{"a"}, Run: at(2, ok("b"))},
			{Name: "a", Run: at(1, ok("a"))},
			{Name: "x", Needs: []string{"c", "broken"}, Run: at(-1, ok(""))},
			{Name: "y", Needs: []string{"x"}, Run: at(-1, ok(""))},
			{Name: "broken", After: []string{"last"}, Run: at(5, fail("mend it", "it broke"))},
		}, 5*time.Second)
		assert.Equal(t, map[string]Status{"last": Warn, "c": OK, "b": OK, "a": OK, "x": Skip, "y": Skip, "broken": Fail}, statuses(reports))
		assert.Equal(t, "last", reports[0].Name, "reports are in the order of the checks")
		assert.Equal(t, "not looked at, since broken failed", reports[4].Text)
		assert.Equal(t, "not looked at, since broken failed", reports[5].Text)
		assert.True(t, Failed(reports))
		assert.False(t, Failed(reports[:4]))
		assert.Equal(t, time.Second, reports[1].Took)
	})
}

// Nothing holds up the whole: not a check that ignores its time, not many in a row.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		hang := func(context.Context) Result {
			<-release
			return ok("")
		}
		slow := func(ctx context.Context) Result {
			<-ctx.Done()
			return ok("slow")
		}
		reports := Run(ctx, []Check{
			{Name: "hangs", Run: hang},
			{Name: "1", Run: slow}, {Name: "2", Needs: []string{"1"}, Run: slow}, {Name: "3", Needs: []string{"2"}, Run: slow}, {Name: "4", Needs: []string{"3"}, Run: slow},
		}, 5*time.Second)
		assert.Equal(t, map[string]Status{"hangs": Fail, "1": OK, "2": OK, "3": OK, "4": Skip}, statuses(reports))
		assert.Equal(t, "no answer after 5s", reports[0].Text)
		assert.NotEmpty(t, reports[0].Remedy)
		assert.Equal(t, "not looked at, since the time for all checks is over", reports[4].Text)
		assert.Equal(t, 12*time.Second, time.Since(began))
		close(release)
	})
}

func TestNamed(t *testing.T) {
	checks := Named("b", []Check{{Name: "x"}, {Name: "y", Needs: []string{"x"}, After: []string{"x"}}})
	assert.Equal(t, "y (b)", checks[1].Name)
	assert.Equal(t, []string{"x (b)"}, checks[1].Needs)
	assert.Equal(t, []string{"x (b)"}, checks[1].After)
}

func TestJoin(t *testing.T) {
	r := Join(ok("a"), ok("b"))
	assert.Equal(t, Result{Status: OK, Text: "a; b"}, r)
	r = Join(ok("a"), warn("do w", "w"), skip("s"), fail("do f", "f"))
	assert.Equal(t, Result{Status: Fail, Text: "w; s; f", Remedy: "do w; do f"}, r)
	assert.Equal(t, Result{Status: OK, Text: "a; s"}, Join(ok("a"), skip("s")))
}

func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("scripts")
	}
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	check := Program([]string{"thing3", "thing"}, []string{"--version"}, Missing(Warn, "install thing", "there is none"))
	assert.Equal(t, Result{Status: Warn, Text: "there is none", Remedy: "install thing"}, check(t.Context()))
	path := script(t, dir, "thing", "echo thing $1 1.0; echo more\n")
	assert.Equal(t, ok("%s, thing --version 1.0", path), check(t.Context()), "the remedy helps")
	script(t, dir, "thing3", "echo no library >&2; exit 3\n")
	r := check(t.Context())
	assert.Equal(t, Warn, r.Status)
	assert.Contains(t, r.Text, "thing3 is there and does not work: exit status 3 no library")
	script(t, dir, "thing3", "exec 2>&1; while :; do :; done\n")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	assert.Contains(t, check(ctx).Text, "it gives no answer")
}

func TestShell(t *testing.T) {
	dir := t.TempDir()
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir)
	r := Shell("")(t.Context())
	assert.Equal(t, Fail, r.Status)
	assert.Contains(t, r.Text, "there is no bash in the PATH "+dir)
	assert.Contains(t, r.Remedy, "install bash")
	script(t, dir, "bash", "exit 127\n")
	assert.Contains(t, Shell("")(t.Context()).Text, "bash is there and does not work: exit status 127")
	t.Setenv("PATH", path)
	r = Shell("/bin/sh")(t.Context())
	assert.Equal(t, OK, r.Status, r.Text)
	assert.Contains(t, r.Text, "the login shell /bin/sh takes")
	r = Shell(script(t, dir, "hangs", "sleep 1000\n"))(t.Context())
	assert.Equal(t, Warn, r.Status)
	assert.Contains(t, r.Text, "gives no answer within 3s")
	assert.Contains(t, r.Remedy, "look what in its profile waits")
	assert.Equal(t, Warn, Shell(filepath.Join(dir, "none"))(t.Context()).Status)
}

func TestSpace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	r := Space(t.Context(), dir, "--state-dir", "what then", 1, 0)
	assert.Equal(t, OK, r.Status)
	assert.Regexp(t, `^\d+\.\d (GiB|MiB) free$`, r.Text)
	r = Space(t.Context(), dir, "--state-dir", "what then", 1<<62, 0)
	assert.Equal(t, Warn, r.Status)
	assert.Contains(t, r.Text, "free; what then")
	assert.Contains(t, r.Remedy, "or name another place with --state-dir")
	r = Space(t.Context(), dir, "--state-dir", "what then", 1<<62, 1<<61)
	assert.Equal(t, Fail, r.Status)
	assert.Contains(t, r.Text, "less than the 2147483648.0 GiB that are needed")
	assert.Equal(t, []string{"3 B", "3.0 KiB", "1.5 MiB"}, []string{bytesText(3), bytesText(3 << 10), bytesText(3 << 19)})
}

func TestSkew(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		want  Status
		text  string
	}{
		{0, OK, "within 1s of the brain's"}, {-4 * time.Second, OK, "within 4s"}, {time.Minute, Warn, "this machine's is 1m0s behind the brain's"},
		{-time.Hour, Fail, "this machine's is 1h0m0s ahead of the brain's; certificates"},
	} {
		r := judgeSkew(c.ahead, 0)
		assert.Equal(t, c.want, r.Status)
		assert.Contains(t, r.Text, c.text)
		assert.Equal(t, c.want != OK, r.Remedy == "set this machine's clock, or the brain's: timedatectl set-ntp true")
	}
	assert.Equal(t, OK, judgeSkew(8*time.Second, 4*time.Second).Status, "a slow answer says less")
}
