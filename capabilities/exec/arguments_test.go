//go:build unix

package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArgumentsThatLeadOut(t *testing.T) {
	b := newBench(t, Options{})
	require.NoError(t, os.Symlink(b.base, filepath.Join(b.base, "ws", "link")))
	require.NoError(t, os.Mkdir(filepath.Join(b.base, "ws", "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.base, "secret"), []byte("s"), 0o644))
	for _, arg := range []string{
		"/etc/passwd", "/", "..", "../secret", "sub/../../secret", "link/secret", "link", "./link/x",
		"--file=/etc/passwd", "--file=../secret", "--file=sub/../../secret", "--file=link/secret", "a=b=/etc/passwd",
		"-I/usr/include", "-C..", "-o../out", "-xzf/etc/x.tgz", "-oProxyCommand=/bin/sh", "@/etc/passwd", "@../secret", "--x=@../secret", "data=@link/secret",
		"sub:/etc/passwd", "a,../secret", "-v/etc:/mnt", "file:///etc/passwd", "file:/etc/passwd", "--url=file://localhost/etc/passwd", "FILE:///etc/passwd",
		"https://host/../../../etc/passwd", "x://../../etc/passwd", "~", "~/.ssh/id_rsa", "~root/x", "--key=~/.ssh/id_rsa",
		`$'../secret'`, `$'/etc/\x70asswd'`, "'/etc/passwd'", "CFLAGS=-I/usr/include",
		" /etc/passwd", "\t../secret", " ~/.ssh/id_rsa", "--file= /etc/passwd", "Include = ../secret", "\u00a0/etc/passwd",
	} {
		a := b.run("show_args", arg)
		if assert.NotNil(t, a.Error, "%q: %s", arg, a.text) {
			assert.Equal(t, "workspace_boundary", a.Error.Reason, arg)
			assert.Contains(t, a.Error.Message, "args[0]: ")
			assert.Contains(t, a.Error.Message, "leads out of the workspace ("+filepath.Join(b.base, "ws")+")")
		}
	}
	for _, arg := range []string{
		"{/etc}", "(/etc)", "x|/etc", " ", " x ", "fix: /etc/hosts is read", "see /etc/hosts", "[/etc]",
		"a", "sub", "sub/../a", "./sub/a.py::Test::test_x", "not there/yet", "...", "./...", "a..b", "HEAD~1..HEAD", "-v", "--verbose", "--x=", "-k", "not slow and fast",
		"https://pypi.org/simple", "--index-url=https://pypi.org/simple", "git+https://github.com/a/b@main", "http://[::1]:80/x", "a:b", "a=b", "1:2", "user@host", "~x", "=", "-", "--", "@",
		filepath.Join(b.base, "ws"), filepath.Join(b.base, "ws/sub"), "--dir=" + filepath.Join(b.base, "ws/sub"), "-I" + filepath.Join(b.base, "ws"), strings.Repeat("x", 5000),
	} {
		assert.Nil(t, b.run("show_args", arg).Error, arg)
	}
}
