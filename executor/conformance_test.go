package executor

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/sourcegraph/jsonrpc2"
	jsonrpc2ws "github.com/sourcegraph/jsonrpc2/websocket"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// The tests of this file put a connection nobody here has written at the other end:
// the stock one of sourcegraph/jsonrpc2, over gorilla's WebSocket, with messages that
// are spelt out.

type object = map[string]any

// stock is such an end.
type stock struct {
	t    *testing.T
	ctx  context.Context
	conn *jsonrpc2.Conn
	came chan message
}

type message struct {
	method string
	params object
}

// newStock makes one that answers requests with what answer returns.
func newStock(t *testing.T, ctx context.Context, ws *websocket.Conn, answer func(method string, params object) any) *stock {
	s := &stock{t: t, ctx: ctx, came: make(chan message, 100)}
	s.conn = jsonrpc2.NewConn(ctx, jsonrpc2ws.NewObjectStream(ws), jsonrpc2.AsyncHandler(jsonrpc2.HandlerWithError(
		func(_ context.Context, _ *jsonrpc2.Conn, req *jsonrpc2.Request) (any, error) {
			m := message{method: req.Method}
			if req.Params != nil {
				if err := json.Unmarshal(*req.Params, &m.params); err != nil {
					return nil, err
				}
			}
			s.came <- m
			if req.Notif {
				return nil, nil
			}
			if result := answer(req.Method, m.params); result != nil {
				return result, nil
			}
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "method not found"}
		})), jsonrpc2.SetLogger(log.New(io.Discard, "", 0)))
	return s
}

// call sends a request and returns its result or its error.
func (s *stock) call(method string, params object) (object, *jsonrpc2.Error) {
	s.t.Helper()
	var result object
	err := s.conn.Call(s.ctx, method, params, &result)
	if err == nil {
		return result, nil
	}
	var e *jsonrpc2.Error
	require.ErrorAs(s.t, err, &e)
	return nil, e
}

// await skips messages until one of a method comes.
func (s *stock) await(method string) object {
	s.t.Helper()
	for {
		select {
		case m := <-s.came:
			if m.method == method {
				return m.params
			}
		case <-time.After(time.Minute):
			s.t.Fatalf("%s did not come", method)
		}
	}
}

// The executor against a stock brain.
func TestConformanceOfTheExecutor(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		up := websocket.Upgrader{Subprotocols: []string{"executor.v1"}}
		connected := make(chan *stock, 1)
		w.handle(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer tok" {
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			ws, err := up.Upgrade(rw, r, nil)
			if err != nil {
				return
			}
			connected <- newStock(t, w.ctx, ws, func(method string, params object) any {
				switch method {
				case "executor.register":
					return object{"connection_id": "con_1", "executor_id": "exe_1", "protocol": "executor.v1", "heartbeat_interval_ms": 10000,
						"lease_ttl_ms": 30000, "drain": false, "limits": object{}, "max_control_frame_bytes": 1048576, "max_mcp_frame_bytes": 4194304}
				case "executor.heartbeat":
					return object{"lease_ttl_ms": 30000, "drain": false}
				case "session.ready", "session.ended", "tool.result":
					return object{"accepted": true}
				}
				return nil
			})
		}))
		w.loaded = true
		w.run(func(o *Options) {
			o.Dial = w.plainDial
			o.Token = func(context.Context) (string, error) { return "tok", nil }
		}, hello(), hold())
		b := <-connected
		p := b.await("executor.register")
		require.Equal(t, "executor.v1", p["protocol"])
		require.Equal(t, "test", p["executor"].(object)["name"])
		require.Len(t, p["capabilities"].(object)["tools"], 2)
		require.NotContains(t, p, "resume")
		synctest.Wait()

		r, e := b.call("session.assign", object{"session_id": "s", "work_id": "w", "lease": object{"token": "l", "fencing_token": 1}})
		require.Nil(t, e)
		require.Equal(t, object{"accepted": true, "session_id": "s"}, r)
		require.Equal(t, object{"session_id": "s", "work_id": "w", "lease_token": "l"}, b.await("session.ready"))
		synctest.Wait()

		r, e = b.call("tool.call", object{"session_id": "s", "tool_call_id": "c1", "tool": "hello", "unknown": 1})
		require.Nil(t, e)
		require.Equal(t, object{"accepted": true}, r)
		require.Equal(t, object{"session_id": "s", "tool_call_id": "c1", "outcome": "succeeded", "is_error": false, "duration_ms": 0.0,
			"content": []any{object{"type": "text", "text": "hello"}}}, b.await("tool.result"))

		_, e = b.call("tool.call", object{"session_id": "s", "tool_call_id": "c2", "tool": "hullo"})
		require.EqualValues(t, -32003, e.Code)
		var data object
		require.NoError(t, json.Unmarshal(*e.Data, &data))
		require.Equal(t, object{"reason": "not_found", "retryable": false}, data)
		_, e = b.call("process.start", object{"session_id": "s", "process_id": "p", "argv": []string{"x"}})
		require.EqualValues(t, -32008, e.Code)
		require.NoError(t, json.Unmarshal(*e.Data, &data))
		require.Equal(t, "process", data["capability"])
		_, e = b.call("no.such", object{})
		require.EqualValues(t, -32601, e.Code)

		_, e = b.call("tool.call", object{"session_id": "s", "tool_call_id": "c3", "tool": "hold"})
		require.Nil(t, e)
		r, e = b.call("tool.cancel", object{"session_id": "s", "tool_call_id": "c3"})
		require.Nil(t, e)
		require.Equal(t, object{"canceled": true}, r)
		p = b.await("tool.result")
		require.Equal(t, "canceled", p["outcome"])
		require.Equal(t, object{"code": -32012.0, "reason": "canceled", "message": errCallCanceled.Message, "retryable": false}, p["error"])

		beat := b.await("executor.heartbeat")
		delete(beat, "load") // of whatever machine this is, or not said
		require.Equal(t, object{"connection_id": "con_1", "active_sessions": []any{"s"}}, beat)
		r, e = b.call("session.stop", object{"session_id": "s", "reason": "the work is done"})
		require.Nil(t, e)
		require.Equal(t, object{"stopped": true}, r)
		require.Equal(t, object{"session_id": "s", "reason": "stopped"}, b.await("session.ended"))

		r, e = b.call("executor.drain", object{"reason": "bye"})
		require.Nil(t, e)
		require.Equal(t, object{"accepted": true, "active_sessions": []any{}}, r)
		require.Equal(t, object{"reason": "bye"}, b.await("executor.close"))
		require.NoError(t, w.stopped())
		<-b.conn.DisconnectNotify()
	})
}

// The brain against a stock executor.
func TestConformanceOfTheBrain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		stored := newStored()
		b := w.brain(brain.Options{Results: stored})
		ws, resp, err := (&websocket.Dialer{NetDialContext: w.net.NetDial, Subprotocols: []string{"executor.v1"}}).DialContext(w.ctx, "ws://brain/", nil)
		require.NoError(t, err)
		require.Equal(t, "executor.v1", resp.Header.Get("Sec-Websocket-Protocol"))
		s := newStock(t, w.ctx, ws, func(method string, params object) any {
			switch method {
			case "session.assign":
				return object{"accepted": true, "session_id": params["session_id"]}
			case "tool.call":
				return object{"accepted": true}
			case "session.stop":
				return object{"stopped": true}
			}
			return nil
		})
		defer s.conn.Close()
		r, e := s.call("executor.register", object{"protocol": "executor.v1", "executor": object{"name": "stock", "os": "linux"},
			"capabilities": object{"tools": []object{{"name": "greet"}}}})
		require.Nil(t, e)
		require.Equal(t, "executor.v1", r["protocol"])
		require.NotEmpty(t, r["executor_id"])
		hb, e := s.call("executor.heartbeat", object{"connection_id": r["connection_id"], "active_sessions": []string{}})
		require.Nil(t, e)
		require.Equal(t, 30000.0, hb["lease_ttl_ms"])

		x, err := b.WaitExecutor(w.ctx)
		require.NoError(t, err)
		require.Equal(t, "stock", x.Info().Name)
		var session *brain.Session
		var result protocol.ToolResultParams
		var work sync.WaitGroup
		work.Go(func() {
			session, err = x.Assign(w.ctx, protocol.SessionAssignParams{SessionID: "s"})
			if err == nil {
				result, err = session.Call(w.ctx, "greet", object{"name": "Ada"})
			}
		})
		p := s.await("session.assign")
		require.Equal(t, "s", p["session_id"])
		lease := p["lease"].(object)
		require.NotZero(t, lease["fencing_token"])
		r, e = s.call("session.ready", object{"session_id": "s", "work_id": p["work_id"], "lease_token": lease["token"]})
		require.Nil(t, e)
		require.Equal(t, object{"accepted": true}, r)

		p = s.await("tool.call")
		require.Equal(t, object{"name": "Ada"}, p["input"])
		answer := object{"session_id": "s", "tool_call_id": p["tool_call_id"], "outcome": "succeeded", "is_error": false, "duration_ms": 6,
			"content": []object{{"type": "text", "text": "Hi Ada"}}}
		for range 2 { // the same result again is answered the same
			r, e = s.call("tool.result", answer)
			require.Nil(t, e)
			require.Equal(t, object{"accepted": true}, r)
		}
		work.Wait()
		require.NoError(t, err)
		require.Equal(t, "Hi Ada", text(result))
		require.Len(t, stored.stored(), 1)

		_, e = s.call("no.such", object{})
		require.EqualValues(t, -32601, e.Code)
		_, e = s.call("tool.result", object{"session_id": "s"})
		require.EqualValues(t, -32602, e.Code)
		work.Go(func() { err = session.Stop(w.ctx, "done") })
		require.Equal(t, "done", s.await("session.stop")["reason"])
		r, e = s.call("session.ended", object{"session_id": "s", "reason": "stopped"})
		require.Nil(t, e)
		require.Equal(t, object{"accepted": true}, r)
		work.Wait()
		require.NoError(t, err)
	})
}
