package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The token is in no command's environment, in no process's arguments, in no log however detailed, and
// in no file but its own; what is written is for its owner alone. (cases 36, 38, 39)
func TestTokenIsNowhereElse(t *testing.T) {
	s := newSite(t)
	s.serve("127.0.0.1:0")
	raw, err := os.ReadFile(s.tokenFile())
	require.NoError(t, err)
	token := strings.TrimSpace(string(raw))
	for name, args := range map[string][]string{
		"file":    {"--token-file", s.tokenFile()},
		"command": {"--token-command", "cat '" + s.tokenFile() + "'"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := s.start("executor", append([]string{"run", "--brain", "ws://" + s.addr + "/executor", "--log-level", "debug"}, args...)...)
			agent.says("(?i)registered")
			out, errs, code := s.brain("call", "bash",
				`{"command":"env; tr '\\0' '\\n' <\"/proc/$PPID/cmdline\"; echo MARK"}`)
			require.Zero(t, code, errs)
			all, err := filepath.Glob("/proc/[0-9]*/cmdline")
			require.NoError(t, err)
			for _, file := range all {
				words, _ := os.ReadFile(file)
				assert.False(t, bytes.Contains(words, []byte(token)), "%s: %q", file, words)
			}
			assert.Contains(t, out, "MARK")
			assert.NotContains(t, out, token)
			agent.signal(os.Interrupt)
			assert.Zero(t, agent.exit())
			assert.NotContains(t, agent.stdout.String()+agent.stderr.String(), token)
		})
	}
	state := filepath.Join(s.home, "state", "executor")
	files := 0
	require.NoError(t, filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if d.IsDir() {
			assert.Zero(t, info.Mode().Perm()&0o077, path)
			return nil
		}
		assert.Zero(t, info.Mode().Perm()&0o077, path)
		if info.Mode().IsRegular() {
			files++
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.False(t, bytes.Contains(content, []byte(token)), path)
		}
		return nil
	}))
	assert.Positive(t, files)
}

// hunt is a command that looks for secrets wherever a process can look. $1 is the executor, $2 its state
// directory, $3 the token file, $4 the log. With $5 it also tries
// to make the executor dump core or stand still, which its own user can.
const hunt = `
env; echo ---
for p in "$1" "$1"/task/*; do
	head -c 20000 /proc/$p/{environ,mem,maps,smaps,auxv,stack,syscall,pagemap,io,cmdline,comm,personality} 2>&1 | tr '\0' '\n'
	ls -l /proc/$p/fd /proc/$p/map_files 2>&1; cat /proc/$p/fd/* 2>&1 | head -c 20000
	ls /proc/$p/root/ /proc/$p/cwd/ 2>&1
done
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'
(strace -f -e trace=none -p "$1" & sleep 0.3; kill $!) 2>&1
(gdb -batch -p "$1" -ex 'info proc' ) 2>&1 </dev/null | head -c 2000
gcore -o ./dump "$1" 2>&1 | head -c 2000
[ -n "$5" ] && for s in QUIT ABRT SEGV STOP; do kill -$s "$1" 2>&1; done
find "$2" 2>&1; cat "$2"/* "$2"/*/* "$2"/*/*/* "$3" "$4" 2>&1 | head -c 100000
ls -l "$2"/control.sock 2>&1
journalctl -n 1000 2>/dev/null
cat /var/crash/* /var/lib/systemd/coredump/* core* 2>/dev/null | head -c 1000000
echo END OF THE HUNT
`

const huntedSecret = "s3cret-of-the-executor-0123456789"

// hunted starts an executor that has the secret in its environment and its token file, as a user, and lets a
// command of it look for them. It returns what the command found.
func hunted(t *testing.T, as *syscall.Credential, signals string, args ...string) string {
	r := newRig(t)
	token := filepath.Join(r.home, "token")
	require.NoError(t, os.WriteFile(token, []byte(huntedSecret+"\n"), 0o600))
	require.NoError(t, os.Chmod(r.home, 0o755)) // the way to the workspace is for all
	require.NoError(t, os.Chown(r.work, 65534, 65534))
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	if as != nil {
		require.NoError(t, os.Mkdir(r.state, 0o700))
		for _, path := range []string{r.state, token, r.log} {
			require.NoError(t, os.Chown(path, int(as.Uid), int(as.Gid)))
		}
	}
	program := filepath.Join(r.home, "executor") // where everybody can run it
	require.NoError(t, os.Link(filepath.Join(r.bin, "executor"), program))
	p := exec.Command("sh", append([]string{"-c", `ulimit -c unlimited; exec "$@"`, "sh", program, "run", "--brain", "ws://" + r.dial + "/executor", "--state-dir", r.state,
		"--token-file", token, "--log-format", "json", "--log-level", "debug"}, args...)...)
	p.Dir = r.work
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.work, "SHELL=/bin/sh", "EXECUTOR_LOG_LEVEL=debug", "THE_TOKEN=" + huntedSecret, "GOTRACEBACK=crash",
		"CREDENTIALS_DIRECTORY=" + r.state, "NOTIFY_SOCKET=/run/nowhere", "INVOCATION_ID=x", "JOURNAL_STREAM=8:1"}
	p.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	p.Stdout, p.Stderr = log, log
	came := r.next(eventRegistered)
	require.NoError(t, p.Start())
	r.executor, r.ended = p, make(chan struct{})
	go func() {
		_ = p.Wait()
		close(r.ended)
	}()
	awaitEvent(t, came, eventRegistered)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.current(ctx)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.work, "hunt.sh"), []byte(hunt), 0o644))
	result, err := s.Call(ctx, "bash", object{"command": fmt.Sprintf("bash hunt.sh %d '%s' '%s' '%s' %s > found 2>&1; tail -1 found", p.Process.Pid, r.state, token, r.log, signals)})
	require.NoError(t, err)
	require.Contains(t, result.Content[0].Text, "END OF THE HUNT")
	found, err := os.ReadFile(filepath.Join(r.work, "found"))
	require.NoError(t, err)
	assert.Contains(t, string(found), "Permission denied", "it has looked")
	assert.NotRegexp(t, `(?m)^(EXECUTOR_LOG|CREDENTIALS_DIRECTORY|NOTIFY_SOCKET|INVOCATION_ID|JOURNAL_STREAM|THE_TOKEN)`, string(found))
	text, err := os.ReadFile(r.log)
	require.NoError(t, err)
	assert.NotContains(t, string(text), huntedSecret)
	if as == nil {
		r.stopExecutor(syscall.SIGTERM)
		return string(found)
	}
	// What dumps core leaves none: it would have all of them.
	_ = p.Process.Signal(syscall.SIGSEGV)
	<-r.ended
	dumps, err := filepath.Glob(filepath.Join(r.work, "core*"))
	require.NoError(t, err)
	assert.Empty(t, dumps)
	return string(found)
}

// Commands that run as another user find no secret of the executor's, wherever they look.
func TestAnotherUserFindsNoSecret(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to run commands as somebody else")
	}
	assert.NotContains(t, hunted(t, nil, "signals", "--run-as", "65534:65534"), huntedSecret)
}

// Commands of the executor's own user find none in the process: neither its environment nor its memory. What
// that user may read on disk, the token file, they can read, unless a sandbox keeps them from it.
func TestTheSameUserFindsNoSecretInTheProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to become somebody else")
	}
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	t.Run("sandbox", func(t *testing.T) {
		assert.NotContains(t, hunted(t, nobody, "signals", "--sandbox", "landlock"), huntedSecret)
	})
	t.Run("none", func(t *testing.T) {
		assert.Equal(t, 1, strings.Count(hunted(t, nobody, ""), huntedSecret), "once, in the token file")
	})
}
