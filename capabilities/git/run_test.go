//go:build unix

package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A git that is ended removes its locks (case 152).
func TestNoLockIsLeft(t *testing.T) {
	b := newBench(t, Options{AllowHooks: true})
	b.commit("a.txt", "a\n")
	b.put("a.txt", "b\n")
	path := filepath.Join(b.base, "started")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	started, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(b.put(".git/hooks/pre-commit", "#!/bin/sh\necho >'"+path+"'\nexec sleep 30\n"), 0o755))
	ctx, cancel := context.WithCancel(t.Context())
	var hook sync.WaitGroup
	hook.Go(func() {
		n, _ := started.Read(make([]byte, 1))
		assert.Equal(t, 1, n, "the hook was started")
		cancel()
	})
	a := b.callContext(ctx, "commit", "-am", "x")
	assert.Equal(t, protocol.OutcomeCanceled, a.Outcome, a.text)
	require.NoError(t, started.Close())
	hook.Wait()
	absent(t, filepath.Join(b.top, ".git/index.lock"))
	require.NoError(t, os.Remove(filepath.Join(b.top, ".git/hooks/pre-commit")))
	b.works("commit", "-am", "y")

	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		b.put("a.txt", fmt.Sprint(i))
		b.callContext(ctx, "status")
		cancel()
		absent(t, filepath.Join(b.top, ".git/index.lock"))
	}
	b.works("commit", "-am", "z")
}

func TestTimeLimit(t *testing.T) {
	b := newBench(t, Options{AllowHooks: true, Timeout: 2 * time.Second, Grace: 100 * time.Millisecond})
	b.put("a.txt", "a\n")
	b.git("add", ".")
	require.NoError(t, os.Chmod(b.put(".git/hooks/pre-commit", "#!/bin/sh\necho from the hook >&2\ntrap '' TERM\nsleep 30\n"), 0o755))
	a := b.call("commit", "-m", "x")
	assert.Equal(t, protocol.OutcomeFailed, a.Outcome)
	assert.Equal(t, "timeout", a.Error.Reason, a.text)
	assert.Contains(t, a.Error.Message, "git did not end within 2s")
	assert.Contains(t, a.text, "from the hook")
	assert.Equal(t, true, a.fields["timed_out"])
	assert.Nil(t, a.fields["exit_code"])
}

func TestALockIsWaitedFor(t *testing.T) {
	b := newBench(t, Options{LockWait: 400 * time.Millisecond})
	b.commit("a.txt", "a\n")
	b.put("a.txt", "b\n")
	lock := b.put(".git/index.lock", "")
	a := b.call("commit", "-am", "x")
	require.Equal(t, protocol.OutcomeFailed, a.Outcome)
	assert.Equal(t, "conflict", a.Error.Reason)
	assert.True(t, a.Error.Retryable)
	assert.Contains(t, a.Error.Message, "the repository is locked: .git/index.lock was there for 400ms; it was made ")
	assert.FileExists(t, lock, "it is not ours to remove")
	assert.Contains(t, b.works("status", "-s"), " M a.txt", "looking takes no lock")

	b.start(Options{LockWait: time.Minute})
	var held sync.WaitGroup
	held.Go(func() {
		time.Sleep(300 * time.Millisecond)
		_ = os.Remove(lock)
	})
	b.works("commit", "-am", "x")
	held.Wait()
}

func TestHooksWhenAllowed(t *testing.T) {
	b := newBench(t, Options{AllowHooks: true})
	b.put("a.txt", "a\n")
	b.git("add", ".")
	hook := b.put(".git/hooks/pre-commit", "#!/bin/sh\necho the hook says no >&2\nexit 1\n")
	require.NoError(t, os.Chmod(hook, 0o755))
	assert.Contains(t, b.refused("internal_error", "commit", "-m", "x"), "the hook says no")
	b.start(Options{})
	b.works("commit", "-m", "x")
}

func TestFilters(t *testing.T) {
	b := newBench(t, Options{Subcommands: []string{"add"}})
	config := filepath.Join(b.env["HOME"], ".gitconfig") // the user's own, as git-lfs has it
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	b.put(config, string(text)+"[filter \"up\"]\n\tclean = tr a-z A-Z\n\tsmudge = tr A-Z a-z\n\trequired\n")
	b.put(".gitattributes", "*.up filter=up\n")
	b.put("a.up", "abc\n")
	long := time.Now().Add(-time.Hour) // else git has to look at its content again, and so at the filter
	require.NoError(t, os.Chtimes(filepath.Join(b.top, "a.up"), long, long))
	b.put("plain.txt", "abc\n")
	assert.Contains(t, b.refused("conflict", "add", "a.up"), "a.up would go through the filter up")
	b.refused("conflict", "add", "-A")
	b.works("add", "plain.txt", ".gitattributes")
	b.git("add", "a.up")
	b.works("commit", "-m", "x")
	assert.Equal(t, "ABC\n", b.git("show", "HEAD:a.up"))
	b.put("plain.txt", "changed\n")
	b.put("new.up", "not known yet, so that commit does not take it\n")
	b.works("commit", "-am", "beside it")
	b.put("plain.txt", "changed again\n")
	b.works("add", "-u")
	b.works("commit", "-m", "beside it", ".")
	b.refused("conflict", "add", ".")
	require.NoError(t, os.Remove(filepath.Join(b.top, "new.up")))
	b.put("a.up", "changed\n")
	b.refused("conflict", "commit", "-am", "y")
	b.refused("conflict", "commit", "-m", "y", "--", "a.up")
	b.refused("conflict", "commit", "-m", "y", "a.up")
	b.start(Options{AllowFilters: true})
	b.works("commit", "-am", "y")
	assert.Equal(t, "CHANGED\n", b.git("show", "HEAD:a.up"))
}

func TestSigningIsSaid(t *testing.T) {
	b := newBench(t, Options{})
	b.git("config", "commit.gpgSign", "true")
	b.put("a.txt", "a\n")
	b.git("add", ".")
	assert.Contains(t, b.works("commit", "-m", "x"), "the commit has no signature")
}

func TestCredentialsAreHidden(t *testing.T) {
	b := newBench(t, Options{})
	b.git("config", "remote.origin.url", "https://someone:hunter22@example.com/x.git")
	b.git("config", "url.https://ghp_0123456789abcdef@github.com/.insteadOf", "gh:")
	b.git("config", "http.https://a.example/.extraHeader", "Authorization: Basic c2VjcmV0OnNlY3JldA==")
	b.commit("a.txt", "https://someone:hunter22@example.com/x.git\nghp_0123456789abcdef c2VjcmV0OnNlY3JldA==\nhttps://other:password@example.com\n")
	b.put("a.txt", "")
	for _, c := range [][]string{{"diff"}, {"show"}, {"log", "-p"}, {"show", "HEAD:a.txt"}, {"show", "https://someone:hunter22@example.com/x.git"}} {
		a := b.call(c[0], c[1:]...)
		all := a.text + string(a.Structured)
		for _, secret := range []string{"hunter22", "ghp_0123456789abcdef", "c2VjcmV0OnNlY3JldA"} {
			assert.NotContains(t, all, secret, "git %q", c)
		}
		if a.Error == nil {
			assert.Contains(t, all, "https://***@example.com/x.git")
			assert.Contains(t, all, "other:password", "what is no credential of the repository is shown as it is")
		}
	}
}

// Before the configuration is known no URL in what git says is shown with a password.
func TestCredentialsInErrors(t *testing.T) {
	for _, key := range []string{"core.abbrev", "diff.context", "core.compression", "status.showUntrackedFiles", "core.bare"} {
		b := newBench(t, Options{})
		b.commit("a.txt", "a\n")
		b.put(".git/config", "[core]\n\trepositoryformatversion = 0\n")
		section, name, _ := strings.Cut(key, ".")
		b.put(".git/config", "[core]\n\trepositoryformatversion = 0\n["+section+"]\n\t"+name+" = see https://u:pass1234@h and https://ghp_abcdefghijklmnop@h and ssh://git@h\n")
		for _, c := range [][]string{{"status"}, {"diff", "HEAD"}, {"changed_files"}, {"branches"}, {"log", "https://v:another12@h/x"}} {
			a := b.call(c[0], c[1:]...)
			all := a.text + string(a.Structured)
			if a.Error != nil {
				all += a.Error.Message
				assert.NotEqual(t, "internal_error", a.Error.Reason, all)
				assert.NotContains(t, all, "://u:", key)
			}
			for _, secret := range []string{"pass1234", "ghp_", "another12"} {
				assert.NotContains(t, all, secret, key)
			}
		}
	}
}

func TestTheEnvironmentDoesNotReachGit(t *testing.T) {
	b := newPlace(t)
	b.git("init", "-q", "-b", "main")
	b.commit("a.txt", "a\n")
	_, sentinel := b.script("env")
	evil := filepath.Join(b.base, "evil-env")
	trace := filepath.Join(b.base, "trace")
	for name, value := range map[string]string{
		"GIT_DIR": b.base, "GIT_WORK_TREE": b.base, "GIT_EXTERNAL_DIFF": evil, "GIT_PAGER": evil, "GIT_EDITOR": evil, "GIT_ASKPASS": evil, "GIT_SSH_COMMAND": evil,
		"GIT_TRACE": trace, "GIT_TRACE2_EVENT": trace, "GIT_EXEC_PATH": b.base, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": evil,
		"GIT_CONFIG_PARAMETERS": "'core.fsmonitor=" + evil + "'", "GIT_CONFIG_GLOBAL": evil, "GIT_OBJECT_DIRECTORY": b.base, "GIT_ALTERNATE_OBJECT_DIRECTORIES": b.base,
		"GIT_INDEX_FILE": trace, "GIT_NAMESPACE": "x", "GIT_CEILING_DIRECTORIES": "", "GIT_ALLOW_PROTOCOL": "ext", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "PAGER": evil,
	} {
		b.env[name] = value
	}
	tools := filepath.Join(b.top, "bin")
	for _, name := range []string{"git", "sh", "cat", "less", "false"} {
		content, err := os.ReadFile(evil)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(b.put(filepath.Join(tools, name), string(content)), 0o755))
	}
	b.env["PATH"] = tools + ":.:bin:" + os.Getenv("PATH")
	b.start(Options{})
	b.put("a.txt", "b\n")
	assert.Contains(t, b.works("diff"), "+b")
	assert.Contains(t, b.works("status"), "Changes not staged for commit")
	b.works("commit", "-am", "x")
	assert.Contains(t, b.works("log", "-p", "--format=%G?"), "+b")
	absent(t, sentinel)
	absent(t, trace)
}

func TestGitsOwnWordsForAnothersRepository(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	for _, name := range []string{".", ".git"} {
		require.NoError(t, os.Chown(filepath.Join(b.top, name), 12345, 12345))
	}
	assert.Contains(t, b.refused("forbidden", "log"), "dubious ownership")
}

func TestCallsAtOnce(t *testing.T) {
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	var calls sync.WaitGroup
	answers := make([]answer, 6)
	for i := range answers {
		b.put(fmt.Sprintf("f%d.txt", i), "x")
		b.git("add", ".")
	}
	for i := range answers {
		calls.Go(func() { answers[i] = b.call("commit", "-m", fmt.Sprint(i), "--allow-empty") })
	}
	calls.Wait()
	for _, a := range answers {
		assert.Equal(t, protocol.OutcomeSucceeded, a.Outcome, a.text)
	}
	assert.Equal(t, "7", strings.TrimSpace(b.git("rev-list", "--count", "HEAD")))
}
