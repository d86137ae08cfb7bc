//go:build unix

package program

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(script string) spawn.Command {
	return spawn.Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func newGroup(t *testing.T) *spawn.Group {
	group := spawn.NewGroup()
	t.Cleanup(func() { group.Close(0) })
	return group
}

func newCall(t *testing.T) *capabilities.Call {
	session := capabilities.NewSession(t.Context(), capabilities.SessionConfig{})
	call := capabilities.NewCall(capabilities.CallConfig{Session: session, ID: "c"})
	t.Cleanup(func() { call.Close() })
	return call
}

func TestCapture(t *testing.T) {
	group := newGroup(t)
	a, err := Capture(t.Context(), group, shell(`printf 'a\0b\n'; echo err >&2; exit 3`), 100, Limits{})
	require.NoError(t, err)
	assert.Equal(t, "a\x00b\n", string(a.Stdout))
	assert.Equal(t, "err\n", string(a.Stderr))
	assert.Equal(t, 3, a.Exit.Code)

	_, err = Capture(t.Context(), group, shell("while :; do echo more and more; done"), 100, Limits{Grace: time.Millisecond})
	assert.ErrorIs(t, err, protocol.ErrPayloadTooLarge)
	_, err = Capture(t.Context(), group, shell("sleep 30"), 100, Limits{Timeout: 100 * time.Millisecond})
	assert.ErrorIs(t, err, protocol.ErrTimeout)
	_, err = Capture(t.Context(), group, spawn.Command{Argv: []string{"/no/such/program"}}, 100, Limits{})
	assert.ErrorContains(t, err, "start /no/such/program: no such file or directory")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Capture(ctx, group, shell("true"), 100, Limits{})
	assert.ErrorIs(t, err, protocol.ErrCanceled)

	pieces := 0
	c := shell("head -c 300000 /dev/zero; head -c 100000 /dev/zero >&2")
	c.Stdout = func(p []byte) { pieces += len(p) }
	a, err = Capture(t.Context(), group, c, 100, Limits{})
	require.NoError(t, err)
	assert.Equal(t, 300_000, pieces)
	assert.Empty(t, a.Stdout)
	assert.LessOrEqual(t, len(a.Stderr), 2*maxStderr)
}

func TestReport(t *testing.T) {
	run, err := Start(t.Context(), newCall(t), newGroup(t), shell(`printf 'a\0secret\377\n'; echo secret >&2; exit 2`), Limits{})
	require.NoError(t, err)
	assert.NoError(t, run.Err())
	r := run.Report(func(s string) string { return strings.ReplaceAll(s, "secret", "***") })
	r.Note("a note of %s", "mine")
	assert.True(t, r.Failed())
	assert.Equal(t, "a***\ufffd\n[stderr]\n***\n[1 bytes of the output were not UTF-8 and are shown as U+FFFD]\n[1 NUL bytes of the output were removed]\n[a note of mine]\n[exit code 2]\n", r.Words())
	assert.Equal(t, 2, *r.ExitCode)
}

func TestWithoutAPlaceForTheRest(t *testing.T) {
	run, err := Start(t.Context(), newCall(t), newGroup(t), shell("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo the end"), Limits{InlineBytes: minInline})
	require.NoError(t, err)
	r := run.Report(nil)
	words := r.Words()
	assert.True(t, r.Truncated)
	assert.LessOrEqual(t, len(words), minInline)
	assert.Contains(t, words, "line 0\n")
	assert.Contains(t, words, "the end\n")
	assert.Contains(t, words, "bytes of stdout omitted …]")
	assert.Contains(t, words, "[the whole output could not be kept: ")
}
