//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Case 5: what is waited for in the foreground is no background, and a limit ends it.
func TestForegroundWait(t *testing.T) {
	b := newBench(t, Options{})
	r := b.limited(`sleep `+unique(8501)+` & wait; echo END`, 300)
	assert.True(t, r.TimedOut)
	assert.Empty(t, r.Stdout)
	assert.False(t, running(t, "sleep "+unique(8501)))
	started := time.Now()
	r = b.limited(`sleep 0.5 & wait; echo END`, 60_000)
	require.Nil(t, r.err)
	assert.Equal(t, "END\n", r.Stdout)
	assert.Equal(t, 0, *r.ExitCode)
	assert.GreaterOrEqual(t, time.Since(started), 500*time.Millisecond)
}

// Case 6: without output there is an answer all the same, with texts that are empty and not absent.
func TestNoOutput(t *testing.T) {
	b := newBench(t, Options{})
	for range 6 {
		for command, code := range map[string]int{`grep zzz /dev/null`: 1, `false`: 1, `true`: 0} {
			r := b.run(command)
			require.Nil(t, r.err)
			require.Equal(t, code, *r.ExitCode)
			raw, err := json.Marshal(r.Report)
			require.NoError(t, err)
			require.Contains(t, string(raw), `"stdout":"","stderr":""`)
		}
	}
}

// Case 7, by a cancel and by the end of the session: nothing is left when it is answered.
func TestNothingLeftAfterCancel(t *testing.T) {
	b := newBench(t, Options{Grace: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for !running(t, "sleep "+unique(8502)) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	r := b.call(ctx, map[string]any{"command": `trap '' TERM; setsid sleep ` + unique(8502) + ` & sleep ` + unique(8502) + ` & wait`})
	assert.ErrorIs(t, r.err, protocol.ErrCanceled)
	assert.False(t, running(t, "sleep "+unique(8502)))
	b.run(`setsid sleep ` + unique(8503) + ` >/dev/null 2>&1 & disown`)
	b.End()
	assert.False(t, running(t, "sleep "+unique(8503)))
}

// Case 26: text in UTF-16 is no text; nothing of it is U+0000, and that is said.
func TestUTF16(t *testing.T) {
	r := newBench(t, Options{}).run(`printf '\xff\xfeh\0i\0\n\0'`)
	assert.NotContains(t, r.Stdout+r.text, "\x00")
	assert.Contains(t, r.Stdout, "hi\n")
	assert.Contains(t, r.text, "NUL bytes of the output were removed")
	assert.EqualValues(t, 3, r.NULBytes)
	assert.EqualValues(t, 2, r.InvalidBytes)
}

// Case 31: a server that wants a name and a password gets none, at once.
func TestGitAsksNobody(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	r := newBench(t, Options{}).limited(`unset http_proxy HTTP_PROXY; git -c credential.helper= ls-remote `+server.URL+`/x.git`, 30_000)
	require.Nil(t, r.err)
	assert.NotZero(t, *r.ExitCode)
	assert.Contains(t, r.Stderr, "terminal prompts disabled")
}

// Case 35: nobody is asked for the passphrase of a key.
func TestSSHAsksNobody(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("no ssh-keygen here")
	}
	b := newBench(t, Options{})
	r := b.limited(`ssh-keygen -q -t ed25519 -N secret1 -f k && ssh-keygen -y -f k`, 30_000)
	require.Nil(t, r.err)
	assert.NotZero(t, *r.ExitCode)
	assert.NotContains(t, r.Stdout, "ssh-ed25519")
	assert.Contains(t, r.Stderr, "passphrase", "the reason")
}

// Case 38: neither the command, which may have a secret in it, nor the environment is in anybody's list
// of processes when it is handed over by other means; what is handed over as words is there.
func TestArguments(t *testing.T) {
	b := newBench(t, Options{Secrets: []string{"the-token-of-the-executor"}})
	t.Setenv("INNOCENT", "the-token-of-the-executor")
	r := b.call(context.Background(), map[string]any{
		"command": `cat /proc/[0-9]*/cmdline /proc/$$/environ 2>/dev/null | tr '\0' '\n'`,
		"env":     map[string]string{"GIVEN": "a-secret-of-the-session"},
	})
	require.Nil(t, r.err)
	assert.NotContains(t, r.Stdout, "the-token-of-the-executor")
	assert.Contains(t, r.Stdout, "GIVEN=a-secret-of-the-session", "in its own environment")
	assert.Equal(t, 1, strings.Count(r.Stdout, "a-secret-of-the-session"), "and nowhere else")
}

// Case 149: a command of any length.
func TestLongCommands(t *testing.T) {
	b := newBench(t, Options{})
	for _, n := range []int{131_070, 131_071, 131_072, 300_000} {
		command := `: '` + strings.Repeat("x", n-len(`: '' ; echo ok`)) + `' ; echo ok`
		require.Len(t, command, n)
		r := b.run(command)
		require.Nil(t, r.err, n)
		assert.Equal(t, "ok\n", r.Stdout, n)
	}
}

// Case 151: 8 workers write scripts and run them at once. EXECUTOR_STRESS=1 makes it 2,000 of them.
func TestManyFreshScripts(t *testing.T) {
	each := 2
	if os.Getenv("EXECUTOR_STRESS") != "" {
		each = 250
	}
	b := newBench(t, Options{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("f%d-%d", w, i)
				r := b.run(`printf '#!/bin/sh\nexit 5\n' >` + name + `; chmod +x ` + name + `; ./` + name)
				if !assert.NotNil(t, r.ExitCode) || !assert.Equal(t, 5, *r.ExitCode, r.Stderr) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// Case 152: a git that is ended at its time limit takes its lock away.
func TestGitLeavesNoLock(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	b := newBench(t, Options{})
	const as = `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; `
	r := b.run(as + `git init -q . && echo one >f && git add f && git commit -qm one && echo two >f`)
	require.Nil(t, r.err)
	require.Equal(t, 0, *r.ExitCode, r.Stderr)
	r = b.limited(as+`GIT_EDITOR='touch editing; sleep 8504 #' git commit -a`, 1500)
	assert.True(t, r.TimedOut)
	assert.FileExists(t, filepath.Join(b.dir, "editing"), "the lock was held at that moment")
	assert.NoFileExists(t, filepath.Join(b.dir, ".git", "index.lock"))
	r = b.run(as + `git add f && git commit -qm two && git status --porcelain --untracked-files=no`)
	require.Nil(t, r.err)
	assert.Equal(t, 0, *r.ExitCode, r.Stderr)
	assert.Empty(t, r.Stdout)
}

// Case 129: commands go first when memory runs out, by as much as was configured.
func TestOOMScore(t *testing.T) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Skip("this system has no OOM scores")
	}
	var score int
	_, err = fmt.Sscan(string(own), &score)
	require.NoError(t, err)
	keeper := spawn.NewKeeper(spawn.Options{})
	require.NoError(t, keeper.Configure(spawn.Launch{OOMScore: 321}))
	for want, o := range map[int]Options{500: {}, 321: {Children: keeper}} {
		r := newBench(t, o).run(`sleep 0.05; cat /proc/self/oom_score_adj`)
		assert.Equal(t, fmt.Sprintln(min(score+want, 1000)), r.Stdout)
	}
}

// Case 128, without a control group: a command that wants more memory than it may have fails alone.
func TestMemoryLimit(t *testing.T) {
	if _, err := os.Stat("/proc/self/limits"); err != nil {
		t.Skip("no limits here")
	}
	keeper := spawn.NewKeeper(spawn.Options{})
	require.NoError(t, keeper.Configure(spawn.Launch{Limits: []spawn.Limit{{Name: "as", Value: 1 << 30}}}))
	b := newBench(t, Options{Children: keeper})
	r := b.run(`perl -e '$x = "x" x (2**32); print "had it\n"'; echo "code $?"`)
	require.Nil(t, r.err)
	assert.NotContains(t, r.Stdout, "had it")
	assert.NotContains(t, r.Stdout, "code 0\n")
	assert.Equal(t, "next\n", b.run(`echo next`).Stdout)
}

// What a hook refuses is said in its words.
func TestHookRefuses(t *testing.T) {
	keeper := spawn.NewKeeper(spawn.Options{})
	require.NoError(t, keeper.Configure(spawn.Launch{Hook: func(l *spawn.Launching) error {
		if strings.Contains(strings.Join(l.Argv, " "), "forbidden") {
			return fmt.Errorf("the sandbox takes no %d words", len(l.Argv))
		}
		return nil
	}}))
	b := newBench(t, Options{Children: keeper})
	assert.Equal(t, "fine\n", b.run(`echo fine`).Stdout)
	r := b.run(`forbidden`)
	require.NotNil(t, r.err)
	assert.Equal(t, protocol.ReasonSpawnFailed, r.err.Data.Reason)
	assert.ErrorContains(t, r.err, "the sandbox takes no 3 words")
}

// For every size around every limit the last line of the output is in the result, on both streams, and
// the numbers are right: with one kind of line on one of them, and with EXECUTOR_STRESS both on both.
func TestLastLineAtEveryLimit(t *testing.T) {
	const spill, last = 128 << 10, "THE LAST LINE\n"
	b := newBench(t, Options{SpillBytes: spill})
	inline := protocol.DefaultInlineResult
	slots := make(chan struct{}, 4)
	var wg sync.WaitGroup
	one := 0
	for _, limit := range []int{(inline - noteBytes) / 3, inline - noteBytes, inline, 64 << 10, spill, 256 << 10} {
		for n := limit - 1; n <= limit+1; n++ {
			for _, to := range []string{"", " >&2"} {
				for _, line := range []string{`yes 1234567`, `yes x | tr -d '\n'`} {
					if one++; os.Getenv("EXECUTOR_STRESS") == "" && one%5 != 1 {
						continue
					}
					wg.Go(func() {
						slots <- struct{}{}
						defer func() { <-slots }()
						command := fmt.Sprintf(`{ %s | head -c %d; echo; printf '%s'; }%s`, line, n-len(last)-1, last[:len(last)-1]+`\n`, to)
						r := b.run(command)
						if !assert.Nil(t, r.err) || !assert.Equal(t, 0, *r.ExitCode) {
							return
						}
						got := r.Stdout
						if to != "" {
							got = r.Stderr
						}
						assert.True(t, strings.HasSuffix(got, "\n"+last), "%s: %q", command, got[max(0, len(got)-100):])
						assert.Contains(t, r.text, "\n"+last, command)
						assert.LessOrEqual(t, len(r.text), inline, command)
						if !r.Truncated {
							assert.Len(t, got, n, command)
						} else {
							assert.Contains(t, got, fmt.Sprintf("of %d bytes of", n), command)
						}
						assert.Equal(t, n > inline-noteBytes, r.Truncated, command)
					})
				}
			}
		}
	}
	wg.Wait()
}
