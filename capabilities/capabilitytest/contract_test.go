package capabilitytest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

func TestContract(t *testing.T) { Run(t, newCounter) }

func TestContractOfFunc(t *testing.T) {
	type input struct {
		Name string   `json:"name" jsonschema:"whom to greet"`
		Tags []string `json:"tags"`
		At   struct {
			Line int `json:"line"`
		} `json:"at"`
		Data []byte `json:"data"`
		Loud bool   `json:"loud"`
	}
	Run(t, func() capabilities.Capability {
		return capabilities.Func("greet", "Say hi.", func(_ context.Context, _ *capabilities.Call, in input) (protocol.ToolOutput, error) {
			return protocol.Text("Hi " + in.Name), nil
		})
	})
}

// broken is a capability of functions.
type broken struct {
	name    string
	install func(*capabilities.Registrar) error
	close   func() error
}

func (b broken) Name() string                            { return b.name }
func (b broken) Install(r *capabilities.Registrar) error { return b.install(r) }
func (b broken) Close() error {
	if b.close == nil {
		return nil
	}
	return b.close()
}

// Each promise of the contract is broken once.
func TestContractFinds(t *testing.T) {
	defer func(d time.Duration) { cancelLimit = d }(cancelLimit)
	cancelLimit = 50 * time.Millisecond
	stop := make(chan struct{}) // ends what the broken ones leave behind
	defer close(stop)

	type in struct {
		Path string `json:"path"`
	}
	type handler = func(context.Context, *capabilities.Call, in) (protocol.ToolOutput, error)
	done := func(context.Context, *capabilities.Call, in) (protocol.ToolOutput, error) {
		return protocol.Text("ok"), nil
	}
	tool := func(tool capabilities.Tool, h handler) func(*capabilities.Registrar) error {
		return func(r *capabilities.Registrar) error { capabilities.AddTool(r, tool, h); return nil }
	}
	hooks := func(start func(*capabilities.Session) error, end func(*capabilities.Session)) func(*capabilities.Registrar) error {
		return func(r *capabilities.Registrar) error {
			r.OnSessionStart(func(_ context.Context, s *capabilities.Session) error { return start(s) })
			r.OnSessionEnd(end)
			return nil
		}
	}
	leak := func() { go func() { <-stop }() }
	late := make(chan *capabilities.Session, 1)

	for _, tt := range []struct {
		name    string
		check   check
		install func(*capabilities.Registrar) error
		close   func() error
		want    string
	}{
		{"install fails", checkInstall, func(*capabilities.Registrar) error { return errors.New("no shell") }, nil, "no shell"},
		{"goroutine in Install", checkInstall, func(*capabilities.Registrar) error { leak(); return nil }, nil, "before the first session"},
		{"gate", checkAdvertised, func(r *capabilities.Registrar) error {
			m := counterRead
			m.Capability = "other.part"
			capabilities.Handle(r, m, func(context.Context, *capabilities.Session, counterReadParams) (counterReadResult, error) {
				return counterReadResult{}, nil
			})
			return nil
		}, nil, "needs capability other"},
		{"no description", checkTools, tool(capabilities.Tool{Name: "t"}, done), nil, "tool t: no description"},
		{"tool name", checkTools, tool(capabilities.Tool{Name: "Tool-1", Description: "d"}, done), nil, `tool name "Tool-1"`},
		{"old schema", checkTools, tool(capabilities.Tool{Name: "t", Description: "d",
			InputSchema: json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)}, done), nil, "not 2020-12"},
		{"open schema", checkTools, tool(capabilities.Tool{Name: "t", Description: "d",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}, done), nil, "an unknown member: was not refused"},
		{"no types", checkTools, func(r *capabilities.Registrar) error {
			capabilities.AddTool(r, capabilities.Tool{Name: "t", Description: "d", InputSchema: json.RawMessage(
				`{"type":"object","additionalProperties":false,"properties":{"pa":{"type":"string"},"pb":{"type":"string"}},"required":["pc"]}`)},
				func(context.Context, *capabilities.Call, map[string]any) (protocol.ToolOutput, error) {
					return protocol.ToolOutput{}, nil
				})
			return nil
		}, nil, "of a wrong type: was refused with"},
		{"a machine method takes any object", checkMethods, func(r *capabilities.Registrar) error {
			capabilities.HandleMachine(r, counterHello, func(_ context.Context, _ *capabilities.Session, p counterParams) (counterParams, error) {
				return p, nil
			})
			return nil
		}, nil, ""},
		{"session start", checkSessions, hooks(func(*capabilities.Session) error { return errors.New("no disk") }, func(*capabilities.Session) {}), nil,
			"start a session: no disk"},
		{"one session only", checkSessions, hooks(func(s *capabilities.Session) error {
			if s.ID() == "second" {
				return errors.New("busy")
			}
			return nil
		}, func(*capabilities.Session) {}), nil, "start a second session beside the first: busy"},
		{"goroutine of a session", checkSessions, hooks(func(*capabilities.Session) error { leak(); return nil }, func(*capabilities.Session) {}), nil,
			"a goroutine outlived its session"},
		{"speaks after the end", checkSessions, func(r *capabilities.Registrar) error {
			r.OnSessionEnd(func(s *capabilities.Session) { late <- s })
			return tool(capabilities.Tool{Name: "t", Description: "d"}, func(context.Context, *capabilities.Call, in) (protocol.ToolOutput, error) {
				s := <-late
				return protocol.Text(""), capabilities.Notify(context.Background(), s, counterNews, counterChanged{SessionID: s.ID()})
			})(r)
		}, nil, "1 notifications of a session that had ended"},
		{"does not return", checkCanceled, tool(capabilities.Tool{Name: "t", Description: "d"},
			func(context.Context, *capabilities.Call, in) (protocol.ToolOutput, error) {
				<-stop
				return protocol.ToolOutput{}, nil
			}), nil, `tool t, called with {"path":"x"}: did not return`},
		{"panics", checkCanceled, tool(capabilities.Tool{Name: "t", Description: "d"},
			func(context.Context, *capabilities.Call, in) (protocol.ToolOutput, error) { panic("oops") }), nil, "panic: oops"},
		{"not UTF-8", checkCanceled, tool(capabilities.Tool{Name: "t", Description: "d"},
			func(context.Context, *capabilities.Call, in) (protocol.ToolOutput, error) {
				return protocol.Text("\xff"), nil
			}), nil, "not valid UTF-8"},
		{"close fails", checkClose, func(*capabilities.Registrar) error { return nil }, func() error { return errors.New("stuck") }, "stuck"},
		{"goroutine after Close", checkClose, func(*capabilities.Registrar) error { return nil }, func() error { leak(); return nil }, "outlived Close"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newCap := func() capabilities.Capability { return broken{"broken", tt.install, tt.close} }
			err := tt.check(newCap, func() *capabilities.Workspace { return newWorkspace(t) })
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
	t.Run("name", func(t *testing.T) {
		err := checkInstall(func() capabilities.Capability { return broken{name: "Bad-Name"} }, nil)
		require.ErrorContains(t, err, `name "Bad-Name"`)
	})
	t.Run("close twice", func(t *testing.T) {
		err := checkClose(func() capabilities.Capability {
			closed := false
			return &broken{"broken", func(*capabilities.Registrar) error { return nil }, func() error {
				if closed {
					return errors.New("closed already")
				}
				closed = true
				return nil
			}}
		}, nil)
		require.ErrorContains(t, err, "close twice: closed already")
	})
}
