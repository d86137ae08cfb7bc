package executor

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Until there is somebody to ask, a call that has to be asked about is denied, not run.
func TestAlwaysAskIsDenied(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ran := false
		s := w.session(brain.Options{}, nil, says("touch", func(string) protocol.ToolOutput { ran = true; return protocol.Text("done") }))
		c, err := s.Start(w.ctx, protocol.ToolCallParams{Tool: "touch", Permission: &protocol.Permission{Mode: protocol.PermissionAlwaysAsk}})
		require.NoError(t, err)
		r, err := c.Result(w.ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeFailed, r.Outcome)
		require.Equal(t, protocol.ReasonLocalConfirmationDenied, r.Error.Reason)
		require.False(t, ran)
	})
}

// Durations beyond what a clock can hold are long, not over.
func TestDurationsDoNotOverflow(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.register = func(_ int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				r.LeaseTTLMS = math.MaxInt64
				return nil
			}
		})
		w.run(nil, hello())
		synctest.Wait()
		_, err := rpc.Call(w.ctx, s.conn(), protocol.SessionAssign, protocol.SessionAssignParams{SessionID: "s1", WorkID: "w", DeadlineMS: math.MaxInt64})
		require.NoError(t, err)
		synctest.Wait()
		_, err = rpc.Call(w.ctx, s.conn(), protocol.ToolCall, protocol.ToolCallParams{SessionID: "s1", ToolCallID: "c", Tool: "hello", DeadlineMS: math.MaxInt64})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, s.so().results, 1)
		require.Equal(t, protocol.OutcomeSucceeded, s.so().results[0].Outcome)
	})
}

// An answer to register that says nothing is no registration.
func TestEmptyRegisterAnswer(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.script(func(s *script) {
			s.register = func(n int, _ protocol.RegisterParams, r *protocol.RegisterResult) error {
				if n == 1 {
					*r = protocol.RegisterResult{}
				}
				return nil
			}
		})
		w.run(nil)
		sleep(time.Minute)
		require.Equal(t, StateReady, w.Status().State)
		require.GreaterOrEqual(t, len(s.so().registers), 2)
	})
}

// Nobody on the way sends the executor away for ever.
func TestRetryFloorIsBounded(t *testing.T) {
	for _, err := range []error{
		&rpc.DialError{Status: http.StatusServiceUnavailable, RetryAfter: math.MaxInt64},
		&rpc.CloseError{Code: protocol.CloseGoingAway, Reason: fmt.Sprint("retry-after=", math.MaxInt64)},
		&rpc.CloseError{Code: protocol.CloseGoingAway, Reason: "retry-after=99999999999999999999"},
	} {
		require.Equal(t, maxRetryFloor, retryFloor(err))
	}
}

func TestIdentityThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state.json"), 0o700))
	e, err := New(Options{URL: "wss://brain/", StateDir: dir})
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(dir, "state.json.damaged"))
	require.NoError(t, e.closeState())
}

func TestURLsThatCannotWork(t *testing.T) {
	for _, u := range []string{"unix://relative", "unix:relative", "wss://host:99999/", "foo", "ws://u:secret@host name/"} {
		_, err := New(Options{URL: u})
		require.ErrorContains(t, err, "brain URL", u)
		require.NotContains(t, err.Error(), "secret")
	}
}
