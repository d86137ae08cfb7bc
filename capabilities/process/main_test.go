//go:build unix

package process

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Setenv("EXECUTOR_TOKEN", "the-executors-own")
	os.Setenv("SOME_API_KEY", "sk-0123456789abcdef0123")
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	capabilitytest.Run(t, func() capabilities.Capability { return New(Options{LoginEnv: map[string]string{}}) })
}

// bench is a session with the capability installed.
type bench struct {
	t   *testing.T
	ctx context.Context
	dir string
	cap *Processes // when the bench is of newBench
	*capabilitytest.Session
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	if o.LoginEnv == nil {
		o.LoginEnv = map[string]string{}
	}
	c := New(o)
	b := benchOn(t, capabilitytest.NewHost(t, c))
	b.cap = c
	return b
}

func benchOn(t *testing.T, h *capabilitytest.Host) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	s := h.NewSession(t, capabilitytest.Options{Env: map[string]string{"SESSION_VARIABLE": "of the session"}})
	return &bench{t: t, ctx: ctx, dir: s.Workspace().Dir(), Session: s}
}

// sh is a shell script as a process.
func sh(id, script string) protocol.ProcessStartParams {
	return protocol.ProcessStartParams{ProcessID: id, Argv: []string{"bash", "-c", script}}
}

func (b *bench) try(p protocol.ProcessStartParams) (protocol.ProcessState, error) {
	p.SessionID = b.ID()
	return capabilitytest.Do(b.ctx, b.Session, protocol.ProcessStart, p)
}

func (b *bench) start(p protocol.ProcessStartParams) protocol.ProcessState {
	b.t.Helper()
	s, err := b.try(p)
	require.NoError(b.t, err)
	return s
}

// run starts a process and waits for its end.
func (b *bench) run(p protocol.ProcessStartParams) protocol.ProcessState {
	b.t.Helper()
	p.WaitMS = 60_000
	s := b.start(p)
	require.NotEqual(b.t, protocol.ProcessRunning, s.State)
	return s
}

func (b *bench) read(p protocol.ProcessReadParams) (protocol.ProcessReadResult, error) {
	p.SessionID = b.ID()
	return capabilitytest.Do(b.ctx, b.Session, protocol.ProcessRead, p)
}

// until reads a stream from its start until it holds a text, and returns it up to there.
func (b *bench) until(id, stream, text string) string {
	b.t.Helper()
	var got strings.Builder
	for cursor := int64(0); ; {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: id, Stream: stream, Cursor: cursor, WaitMS: 60_000})
		require.NoError(b.t, err)
		got.Write(r.Data)
		if strings.Contains(got.String(), text) {
			return got.String()
		}
		require.False(b.t, r.EOF, "%q does not hold %q", got.String(), text)
		cursor = r.NextCursor
	}
}

// all reads a stream to its end.
func (b *bench) all(id, stream string) string {
	b.t.Helper()
	var got strings.Builder
	for cursor := int64(0); ; {
		r, err := b.read(protocol.ProcessReadParams{ProcessID: id, Stream: stream, Cursor: cursor, WaitMS: 60_000})
		require.NoError(b.t, err)
		require.False(b.t, r.Gap)
		require.Equal(b.t, cursor, r.FromCursor)
		got.Write(r.Data)
		if cursor = r.NextCursor; r.EOF {
			return got.String()
		}
	}
}

func (b *bench) write(p protocol.ProcessWriteParams) (protocol.ProcessWriteResult, error) {
	p.SessionID = b.ID()
	return capabilitytest.Do(b.ctx, b.Session, protocol.ProcessWrite, p)
}

func (b *bench) signal(m protocol.Method[protocol.ProcessSignalParams, protocol.ProcessState], id string, grace int64) protocol.ProcessState {
	b.t.Helper()
	p := protocol.ProcessSignalParams{SessionID: b.ID(), ProcessID: id}
	if grace >= 0 {
		p.GraceMS = &grace
	}
	s, err := capabilitytest.Do(b.ctx, b.Session, m, p)
	require.NoError(b.t, err)
	return s
}

func (b *bench) list() []protocol.ProcessState {
	b.t.Helper()
	r, err := capabilitytest.Do(b.ctx, b.Session, protocol.ProcessList, protocol.ProcessListParams{SessionID: b.ID()})
	require.NoError(b.t, err)
	return r.Processes
}

// ended waits for the end of a process, by its status.
func (b *bench) ended(id string) protocol.ProcessStatusParams {
	b.t.Helper()
	return capabilitytest.WaitNotified(b.t, b.Host.Peer, protocol.ProcessStatus, func(p protocol.ProcessStatusParams) bool {
		return p.SessionID == b.ID() && p.ProcessID == id
	})
}

// requireError checks that err is an error of the protocol with that code and reason.
func requireError(t *testing.T, err error, code protocol.Code, reason string) *protocol.Error {
	t.Helper()
	var e *protocol.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, e.Message)
	if reason != "" {
		require.Equal(t, reason, e.Reason(), e.Message)
	}
	return e
}
