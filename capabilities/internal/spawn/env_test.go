//go:build unix

package spawn

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Case 36: the executor's own credentials, and what looks like any, do not reach a child.
func TestSecretsStayOut(t *testing.T) {
	base := []string{
		"EXECUTOR_TOKEN=abc", "executor_url=ws://x", "ANTHROPIC_API_KEY=x", "GITHUB_TOKEN=x", "AWS_SECRET_ACCESS_KEY=x", "DB_PWD=x",
		"PGPASSWORD=x", "NPM_AUTH=x", "SESSION_COOKIE=x", "MY_CREDENTIALS=x", "PLAIN=ghp_0123456789abcdef", "NOTE=has verysecret inside",
		"DATABASE_URL=postgres://u:p@h/db", "AWS_ID=AKIAABCDEFGHIJKLMNOP", "JWT=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
		"NOTIFY_SOCKET=/run/x", "LISTEN_FDS=1", "KEPT_TOKEN=fine", "LEAK=verysecret",
		"TOKENIZERS_PARALLELISM=false", "SSH_AUTH_SOCK=/tmp/agent", "HTTPS_PROXY=http://u:p@proxy:3128", "KEYBOARD=us", "COMPASS=n",
		"MONKEY=1", "AUTHOR=me", "URL=https://example.com/a:b@c", "PATH=/own/bin:/usr/bin",
	}
	got := parse(Environment(nil, Policy{Base: base, Keep: []string{"KEPT_TOKEN", "LEAK"}, Secrets: []string{"verysecret"}}, map[string]string{"GIVEN_TOKEN": "explicit", Marker: "forged"}))
	for _, name := range []string{"EXECUTOR_TOKEN", "executor_url", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PWD", "PGPASSWORD",
		"NPM_AUTH", "SESSION_COOKIE", "MY_CREDENTIALS", "PLAIN", "NOTE", "DATABASE_URL", "AWS_ID", "JWT", "NOTIFY_SOCKET", "LISTEN_FDS", "LEAK", Marker} {
		assert.NotContains(t, got, name)
	}
	for name, want := range map[string]string{"KEPT_TOKEN": "fine", "TOKENIZERS_PARALLELISM": "false", "SSH_AUTH_SOCK": "/tmp/agent", "HTTPS_PROXY": "http://u:p@proxy:3128",
		"KEYBOARD": "us", "COMPASS": "n", "MONKEY": "1", "AUTHOR": "me", "URL": "https://example.com/a:b@c", "GIVEN_TOKEN": "explicit",
		"GIT_TERMINAL_PROMPT": "0", "EDITOR": "true", "PAGER": "cat", "TERM": "dumb", "PATH": "/own/bin:/usr/bin"} {
		assert.Equal(t, want, got[name], name)
	}
}

func TestLayers(t *testing.T) {
	login := map[string]string{"PATH": "/login/bin:/usr/bin", "HOME": "/tmp", "JAVA_HOME": "/login/java", "BOTH": "login", "LANG": "de_DE.UTF-8", "PROFILE_TOKEN": "x"}
	base := []string{"PATH=/own/bin:/usr/bin", "HOME=/does/not/exist", "BOTH=own", "EDITOR=vim", "TERM=xterm"}
	got := parse(Environment(login, Policy{Base: base}, map[string]string{"PAGER": "less"}))
	assert.Equal(t, "/login/bin:/usr/bin:/own/bin", got["PATH"], "the login shell's, then what is missing")
	assert.Equal(t, "/tmp", got["HOME"], "the environment's is not real")
	assert.Equal(t, "/login/java", got["JAVA_HOME"])
	assert.Equal(t, "own", got["BOTH"])
	assert.Equal(t, "de_DE.UTF-8", got["LANG"])
	assert.Equal(t, "true", got["EDITOR"])
	assert.Equal(t, "less", got["PAGER"], "explicit wins")
	assert.NotContains(t, got, "PROFILE_TOKEN")
	assert.NotEmpty(t, got["USER"])
	assert.NotEmpty(t, got["SHELL"])

	got = parse(Environment(nil, Policy{Base: []string{}, Terminal: "xterm-256color"}, map[string]string{"PATH": "/only"}))
	assert.Equal(t, "/only", got["PATH"])
	assert.Equal(t, "xterm-256color", got["TERM"])
	assert.NotEmpty(t, got["HOME"], "the account's")
	assert.Equal(t, defaultPath, parse(Environment(nil, Policy{Base: []string{}}, nil))["PATH"])
}

// Cases 40 and X8: the PATH of the login shell, whatever else its profile does.
func TestCaptureLogin(t *testing.T) {
	const rc = "case $- in *i*) ;; *) return;; esac\nPATH=$HOME/tools:$PATH\n"
	number := unique()
	for name, test := range map[string]struct {
		files map[string]string
		tools bool // PATH holds ~/tools
		none  bool // no answer at all
	}{
		"interactive bashrc":    {files: map[string]string{".bashrc": rc}, tools: true},
		"profile":               {files: map[string]string{".bash_profile": "export PATH=$HOME/tools:$PATH\n"}, tools: true},
		"banner":                {files: map[string]string{".bash_profile": "echo WELCOME PATH=/evil; echo HELLO >&2; PATH=$HOME/tools:$PATH\n"}, tools: true},
		"background child":      {files: map[string]string{".bash_profile": "sleep " + number + " &\nPATH=$HOME/tools:$PATH\n"}, tools: true},
		"reads the input":       {files: map[string]string{".bash_profile": "read -r answer; PATH=$HOME/tools:$PATH\n"}, tools: true},
		"hangs on exit":         {files: map[string]string{".bash_profile": "trap 'sleep 60' EXIT; PATH=$HOME/tools:$PATH\n"}, tools: true},
		"hangs interactively":   {files: map[string]string{".bash_profile": "case $- in *i*) sleep 60;; esac\nPATH=$HOME/tools:$PATH\n"}, tools: true},
		"hangs":                 {files: map[string]string{".bash_profile": "sleep 60\n"}, none: true},
		"becomes another shell": {files: map[string]string{".bash_profile": "exec cat\n"}, none: true},
		"floods":                {files: map[string]string{".bash_profile": "yes\n"}, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			for file, text := range test.files {
				require.NoError(t, os.WriteFile(filepath.Join(home, file), []byte(text), 0o600))
			}
			started := time.Now()
			login := CaptureLogin("/bin/bash", home, 2*time.Second)
			assert.Less(t, time.Since(started), 4*time.Second)
			if test.none {
				assert.Nil(t, login)
				return
			}
			require.NotNil(t, login)
			assert.Equal(t, test.tools, filepath.SplitList(login["PATH"])[0] == home+"/tools", login["PATH"])
			assert.Equal(t, home, login["HOME"])
			assert.NotContains(t, login, Marker)
			assert.NotContains(t, login["PATH"], "evil")
		})
	}
	assert.False(t, alive("sleep "+number), "what a profile leaves running is ended")
}
