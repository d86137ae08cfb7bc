package capabilities

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

// testCapability is a capability of two functions.
type testCapability struct {
	name    string
	install func(*Registrar) error
}

func (c testCapability) Name() string               { return c.name }
func (c testCapability) Install(r *Registrar) error { return c.install(r) }

type closingCapability struct {
	testCapability
	close func() error
}

func (c closingCapability) Close() error { return c.close() }

type noInput struct{}

func nothing(context.Context, *Call, noInput) (protocol.ToolOutput, error) {
	return protocol.Text("done"), nil
}

type pingParams struct {
	SessionID string `json:"session_id"`
	N         int    `json:"n"`
}

func (p pingParams) InSession() string { return p.SessionID }

type pingResult struct {
	N int `json:"n"`
}

var ping = protocol.Method[pingParams, pingResult]{Spec: protocol.Spec{Name: "test.ping", From: protocol.Brain, Repeat: "read"}}

func pong(_ context.Context, _ *Session, p pingParams) (pingResult, error) {
	return pingResult{p.N}, nil
}

func TestRegistryCapabilities(t *testing.T) {
	r := NewRegistry(nil)
	require.Equal(t, protocol.Capabilities{}, r.Capabilities())
	require.NoError(t, r.Install(Func("zeta", "Last.", nothing)))
	require.NoError(t, r.Install(testCapability{"files", func(reg *Registrar) error {
		reg.Advertise(protocol.FilesDetails{Enabled: true, ReadRoots: []string{"/"}})
		AddTool(reg, Tool{Name: "alpha", Description: "First."}, nothing)
		require.NotNil(t, reg.Logger())
		return nil
	}}))

	caps := r.Capabilities()
	require.True(t, caps.Has("files"))
	require.False(t, caps.Has("zeta"), "a tool alone is advertised as a tool")
	tools, err := caps.Tools()
	require.NoError(t, err)
	require.Len(t, tools, 2)
	require.Equal(t, []string{"alpha", "zeta"}, []string{tools[0].Name, tools[1].Name})
	require.Equal(t, []string{"alpha", "zeta"}, r.ToolNames())
	require.JSONEq(t, `{"type":"object","additionalProperties":false}`, string(tools[0].InputSchema))

	caps["files"][0] = 'x' // the caller's own
	delete(caps, "tools")
	require.True(t, r.Capabilities().Has("files"))
	require.True(t, r.Capabilities().Has("tools"))
	_, ok := r.Tool("beta")
	require.False(t, ok)
}

func TestRegistrationMistakesPanic(t *testing.T) {
	tool := func(name string) func(*Registrar) error {
		return func(r *Registrar) error { AddTool(r, Tool{Name: name}, nothing); return nil }
	}
	tests := []struct {
		name string
		c    Capability
		want string
	}{
		{"capability twice", testCapability{"first", func(*Registrar) error { return nil }}, "capability first is registered twice"},
		{"no name", testCapability{"", nil}, `capability name "" does not match`},
		{"dotted name", testCapability{"a.b", nil}, `capability name "a.b" does not match`},
		{"reserved name", testCapability{"tools", nil}, "tools is advertised by the executor itself"},
		{"tool of another", testCapability{"x", tool("one")}, "x: tool one is registered already, by first"},
		{"tool twice", testCapability{"x", func(r *Registrar) error { _ = tool("two")(r); return tool("two")(r) }}, "x: tool two is registered twice"},
		{"bad tool name", testCapability{"x", tool("no spaces")}, `x: tool name "no spaces" does not match`},
		{"input type", Func("x", "d", func(context.Context, *Call, string) (protocol.ToolOutput, error) { return protocol.ToolOutput{}, nil }),
			"x: tool x: input type string is not a JSON object"},
		{"input schema", testCapability{"x", func(r *Registrar) error {
			AddTool(r, Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"string"}`)}, nothing)
			return nil
		}}, "x: tool t: input schema: the schema's type is not object"},
		{"output schema", testCapability{"x", func(r *Registrar) error {
			AddTool(r, Tool{Name: "t", OutputSchema: json.RawMessage(`[]`)}, nothing)
			return nil
		}}, "x: tool t: output schema: not a JSON schema"},
		{"method of another", testCapability{"x", func(r *Registrar) error { Handle(r, ping, pong); return nil }},
			"x: method test.ping is registered already, by first"},
		{"method from the executor", testCapability{"x", func(r *Registrar) error {
			Handle(r, protocol.ToolResult, func(context.Context, *Session, protocol.ToolResultParams) (protocol.AcceptedResult, error) {
				return protocol.AcceptedResult{}, nil
			})
			return nil
		}}, "x: method tool.result is sent by the executor"},
		{"method of the core", testCapability{"x", func(r *Registrar) error {
			Handle(r, protocol.ToolCall, func(context.Context, *Session, protocol.ToolCallParams) (protocol.AcceptedResult, error) {
				return protocol.AcceptedResult{}, nil
			})
			return nil
		}}, "x: method tool.call is answered by the executor itself"},
		{"method without a name", testCapability{"x", func(r *Registrar) error {
			HandleMachine(r, protocol.Method[pingParams, pingResult]{}, pong)
			return nil
		}}, "x: method without a name"},
		{"advertised twice", testCapability{"x", func(r *Registrar) error { r.Advertise(1); r.Advertise(2); return nil }}, "x: advertised twice"},
		{"details", testCapability{"x", func(r *Registrar) error { r.Advertise(func() {}); return nil }}, "x: details: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRegistry(nil)
			require.NoError(t, r.Install(testCapability{"first", func(reg *Registrar) error {
				AddTool(reg, Tool{Name: "one"}, nothing)
				Handle(reg, ping, pong)
				return nil
			}}))
			defer func() {
				text, _ := recover().(string)
				require.Contains(t, text, "capabilities: "+tt.want)
			}()
			_ = r.Install(tt.c)
			t.Error("no panic")
		})
	}
}

// A failed Install leaves nothing behind, and a registrar is of no use afterwards.
func TestInstallFails(t *testing.T) {
	r := NewRegistry(nil)
	var kept *Registrar
	broken := testCapability{"x", func(reg *Registrar) error {
		kept = reg
		reg.Advertise(true)
		AddTool(reg, Tool{Name: "one"}, nothing)
		Handle(reg, ping, pong)
		reg.OnSessionStart(func(context.Context, *Session) error { return errors.New("called") })
		return errors.New("no such program")
	}}
	require.EqualError(t, r.Install(broken), "install capability x: no such program")
	require.Empty(t, r.Capabilities())
	require.Empty(t, r.ToolNames())
	require.Empty(t, r.Methods())
	require.NoError(t, r.StartSession(t.Context(), NewSession(t.Context(), SessionConfig{})))
	require.NoError(t, r.Install(testCapability{"x", func(*Registrar) error { return nil }}), "the name is free again")
	for _, f := range []func(){
		func() { kept.Advertise(1) }, func() { AddTool(kept, Tool{Name: "t"}, nothing) }, func() { Handle(kept, ping, pong) },
		func() { kept.OnSessionStart(nil) }, func() { kept.OnSessionEnd(nil) },
	} {
		func() {
			defer func() { require.Contains(t, recover(), "after Install has returned") }()
			f()
		}()
	}
}

func TestSessionHooks(t *testing.T) {
	var log []string
	failing := ""
	hook := func(name string) Capability {
		return testCapability{name, func(r *Registrar) error {
			r.OnSessionStart(func(context.Context, *Session) error {
				log = append(log, "start "+name)
				if failing == name {
					return errors.New(name + " failed")
				}
				return nil
			})
			r.OnSessionEnd(func(*Session) { log = append(log, "end "+name) })
			return nil
		}}
	}
	r := NewRegistry(nil)
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, r.Install(hook(name)))
	}
	s := NewSession(t.Context(), SessionConfig{})

	require.NoError(t, r.StartSession(t.Context(), s))
	r.EndSession(s)
	require.Equal(t, []string{"start a", "start b", "start c", "end c", "end b", "end a"}, log)

	log, failing = nil, "c"
	require.EqualError(t, r.StartSession(t.Context(), s), "c failed")
	require.Equal(t, []string{"start a", "start b", "start c", "end b", "end a"}, log)

	log, failing = nil, "a"
	require.EqualError(t, r.StartSession(t.Context(), s), "a failed")
	require.Equal(t, []string{"start a"}, log)
}

func TestEndHookPanics(t *testing.T) {
	var ended []int
	r := NewRegistry(nil)
	require.NoError(t, r.Install(testCapability{"x", func(reg *Registrar) error {
		reg.OnSessionEnd(func(*Session) { ended = append(ended, 1) })
		reg.OnSessionEnd(func(*Session) { panic("two") })
		reg.OnSessionEnd(func(*Session) { ended = append(ended, 3) })
		return nil
	}}))
	require.PanicsWithValue(t, "two", func() { r.EndSession(NewSession(t.Context(), SessionConfig{})) })
	require.Equal(t, []int{3, 1}, ended)
}

func TestClose(t *testing.T) {
	var log []string
	closing := func(name string, err error) Capability {
		return closingCapability{testCapability{name, func(*Registrar) error { return nil }},
			func() error { log = append(log, name); return err }}
	}
	r := NewRegistry(nil)
	require.NoError(t, r.Install(closing("a", errors.New("busy"))))
	require.NoError(t, r.Install(closing("b", nil)))
	require.NoError(t, r.Install(Func("c", "d", nothing)))
	require.EqualError(t, r.Close(), "close capability a: busy")
	require.EqualError(t, r.Close(), "close capability a: busy")
	require.Equal(t, []string{"b", "a"}, log)
}
