//go:build unix

package spawn

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPart(t *testing.T) {
	g := newGroup(t)
	out := newOutput()
	p, err := g.Start(Command{Argv: []string{"bash"}, Dir: t.TempDir(), Env: testEnv(), Input: true, Stdout: out.sink})
	require.NoError(t, err)
	tell := func(lines string) {
		_, err := p.Stdin().WriteString(lines)
		require.NoError(t, err)
	}
	// One that is left, and starts another one later.
	tell("{ read < /dev/null; while [ ! -e go ]; do sleep 0.02; done; sleep 9201; } & sleep 9202 & echo first\n")
	out.until(t, "first\n")
	left, members := p.Leave()
	assert.GreaterOrEqual(t, len(members), 2)
	assert.Len(t, left, len(members))

	moment := Now()
	tell("touch go; sleep 9203 & (setsid sleep 9204 &) ; trap : INT; sleep 9205; echo second\n")
	part := p.Since(moment, left)
	require.Eventually(t, func() bool {
		return alive("sleep 9201") && alive("sleep 9203") && alive("sleep 9204") && alive("sleep 9205")
	}, 5*time.Second, 10*time.Millisecond)
	assert.Len(t, part.Members(), 3)
	part.Interrupt()
	out.until(t, "second\n") // the shell itself was not told
	assert.Empty(t, part.Terminate(time.Second))
	assert.Empty(t, part.Members())
	for number, want := range map[string]bool{"9201": true, "9202": true, "9203": false, "9204": false, "9205": false} {
		assert.Equal(t, want, alive("sleep "+number), number)
	}
	tell("echo third\n")
	out.until(t, "third\n")
}

func TestIntake(t *testing.T) {
	pipe := func() (*Intake, *output, *os.File) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		out := newOutput()
		return NewIntake(r, out.sink), out, w
	}
	i, out, w := pipe()
	_, err := w.WriteString("all of it")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.False(t, i.Settle())
	assert.False(t, i.Settle())
	assert.Equal(t, "all of it", out.String())
	assert.Equal(t, 1, out.ends())
	<-i.Ended()
	i.Close()

	i, out, w = pipe()
	_, err = w.WriteString("before")
	require.NoError(t, err)
	assert.True(t, i.Settle())
	_, err = w.Write(make([]byte, 1<<20)) // is read all the same
	require.NoError(t, err)
	assert.Equal(t, "before", out.String())
	assert.Equal(t, 1, out.ends())
	i.Close()
	i.Close()
	_, err = w.WriteString("x")
	assert.Error(t, err)
	require.NoError(t, w.Close())
}
