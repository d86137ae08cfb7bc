//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A character that comes in two halves is not harmed, on either stream and on a PTY (case 24), nor are
// bytes that are none (case 28).
func TestSplitCharacter(t *testing.T) {
	b := newBench(t, Options{})
	halves := func(to string) string {
		return `printf 'cleanup \342' ` + to + `; sleep 0.2; printf '\200\224 end\n' ` + to + `; `
	}
	b.start(sh("pipes", halves("")+halves(">&2")+`printf '\377\376\200abc\n'; exit 3`))
	b.start(onPTY(t, "pty", halves("")))
	var got strings.Builder
	for cursor := int64(0); ; {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: "pipes", Cursor: cursor, WaitMS: 50})
		require.NoError(t, err)
		got.Write(r.Data)
		if cursor = r.NextCursor; r.EOF {
			break
		}
	}
	assert.Equal(t, "cleanup — end\n\xff\xfe\x80abc\n", got.String())
	assert.Equal(t, "cleanup — end\n", b.all("pipes", protocol.StreamStderr))
	assert.Equal(t, "cleanup — end\r\n", b.all("pty", ""))
	assert.Equal(t, 3, *b.ended("pipes").ExitCode)
}

// Pagers and editors do not take a PTY: each git command ends by itself, and what is typed behind it
// goes to the shell (case 33).
func TestGitOnPTY(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	b := newBench(t, Options{LoginEnv: map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir()}})
	require.Equal(t, 0, *b.run(sh("repository", `set -e
		git init -q . && git config user.name n && git config user.email e && git config commit.gpgsign false
		for i in $(seq 1 60); do echo "commit refs/heads/work"; echo "committer n <e> $i +0000"; echo "data 9"; printf 'number %02d\n' $i; echo "M 644 inline file$i"; echo "data 2"; echo x; done | git fast-import --quiet
		git checkout -q work; git branch b HEAD~1; git checkout -q b; echo y > other; git add other; git commit -qm other; git checkout -q work`)).ExitCode,
		b.all("repository", protocol.StreamStderr))
	for i, command := range []string{"git log", "git commit --amend", "git rebase -i HEAD~2", "git merge --no-ff b", "git log --stat"} {
		p := onPTY(t, fmt.Sprint(i), command)
		p.Stdin, p.TimeoutMS = protocol.StdinOpen, 30_000
		s := b.run(p)
		require.Equal(t, protocol.ProcessExited, s.State, command)
		assert.Equal(t, 0, *s.ExitCode, "%s: %s", command, b.all(p.ProcessID, ""))
	}
	assert.Contains(t, b.all("0", ""), "number 01", "all of it")

	p := onPTY(t, "shell", `PS1=; PS2=; exec bash --norc --noprofile --noediting -i`)
	p.Stdin = protocol.StdinOpen
	b.start(p)
	for _, line := range []string{"git log\n", "echo NE''XT\n", "exit 4\n"} {
		_, err := b.write(protocol.ProcessWriteParams{ProcessID: "shell", Data: []byte(line)})
		require.NoError(t, err)
	}
	out := b.all("shell", "")
	assert.Contains(t, out, "number 01")
	assert.Contains(t, out, "NEXT\r\n", "the second command's own")
	assert.Equal(t, 4, *b.ended("shell").ExitCode)
}

// A program that was written a moment ago starts, whatever else is being started (case 151).
func TestJustWrittenProgram(t *testing.T) {
	b := newBench(t, Options{KeepFinished: 1000})
	var all sync.WaitGroup
	for lane := range 8 {
		all.Go(func() {
			for i := range full(40, 5) {
				name := fmt.Sprintf("p%d-%d", lane, i)
				path := filepath.Join(b.dir, name)
				f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
				if !assert.NoError(t, err) {
					return
				}
				_, _ = f.WriteString("#!/bin/sh\necho " + name + "\n")
				_ = f.Close()
				s, err := b.try(protocol.ProcessStartParams{ProcessID: name, Argv: []string{path}, WaitMS: 60_000})
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, protocol.ProcessExited, s.State)
				assert.Equal(t, int64(len(name)+1), s.Cursors.Stdout)
			}
		})
	}
	all.Wait()
}

// A program has three descriptors, whatever else runs beside it (case 137).
func TestDescriptorsOfAProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the list is in /proc")
	}
	b := newBench(t, Options{})
	for i := range 5 {
		p := sh(fmt.Sprint(i), "cat")
		p.Stdin = protocol.StdinOpen
		b.start(p)
	}
	const list = `for ((i = 0; i < 200; i++)); do [ -e /proc/$$/fd/$i ] && printf "%s " $i; done`
	b.run(sh("pipes", list))
	assert.Equal(t, "0 1 2 ", b.all("pipes", ""))
	b.run(onPTY(t, "pty", list))
	assert.Equal(t, "0 1 2 ", b.all("pty", ""))
}

// The state comes at the exit although somebody else holds the stream, whose end is then its own; a read
// that waits for it does not hold up others.
func TestStateBeforeTheStream(t *testing.T) {
	b := newBench(t, Options{})
	started := time.Now()
	s := b.run(sh("p", `(sleep 2; echo late) & echo early`))
	assert.Less(t, time.Since(started), 2*time.Second)
	assert.Equal(t, 0, *s.ExitCode)
	assert.Equal(t, "early\nlate\n", b.all("p", ""))
}
