package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
)

func TestDemo(t *testing.T) {
	configtest.Isolate(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	leaks := goleak.IgnoreCurrent()
	var out bytes.Buffer
	report := runDemo(t.Context(), &out)
	require.True(t, report.OK, out.String())
	assert.NoError(t, report.err(false))
	assert.Len(t, report.Steps, 6)
	assert.Equal(t, 6, strings.Count(out.String(), "   ok  "))
	assert.Contains(t, out.String(), "All 6 steps held.")
	goleak.VerifyNone(t, leaks)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestDemoThatIsInterrupted(t *testing.T) {
	configtest.Isolate(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	// In the middle: as soon as the output says that the command is streamed.
	out := &trigger{at: "| line 1", do: func() { cancel(errors.New("pulled the plug")) }}
	report := runDemo(ctx, out)
	assert.False(t, report.OK)
	assert.EqualError(t, report.err(false), "demo: step 4 (a longer command is seen while it runs) failed: pulled the plug")
	assert.Contains(t, out.String(), "FAILED  pulled the plug")
	assert.Contains(t, out.String(), "The log:")
	goleak.VerifyNone(t, leaks)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// trigger does something when some text is written.
type trigger struct {
	bytes.Buffer
	at string
	do func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.at)) {
		w.do()
	}
	return w.Buffer.Write(p)
}
