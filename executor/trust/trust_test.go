package trust

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/audit"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/executor/policy"
	"github.com/agent-executor/executor/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A decision holds for the same thing, and for nothing else.
func TestSubjects(t *testing.T) {
	bash := func(e capabilities.Effect) gate.Request { return gate.Request{Name: "bash", Effect: e} }
	base := bash(capabilities.Effect{Script: "npm test"})
	same := []gate.Request{bash(capabilities.Effect{Script: "npm   'test'"}), bash(capabilities.Effect{Script: "npm test # again"}), bash(capabilities.Effect{Script: "npm test", Dir: "."})}
	others := []gate.Request{
		bash(capabilities.Effect{Script: "npm test x"}), bash(capabilities.Effect{Script: "npm test; ls"}), bash(capabilities.Effect{Script: "npm test > x"}), bash(capabilities.Effect{Script: "npm test", Dir: "sub"}),
		bash(capabilities.Effect{Script: "npm test", Env: map[string]string{"X": "1"}}), bash(capabilities.Effect{Script: "npm test", Persistent: true}), bash(capabilities.Effect{Argv: []string{"npm", "test"}, Interactive: true}),
		{Name: "run_shell", Effect: capabilities.Effect{Script: "npm test"}}, bash(capabilities.Effect{Argv: []string{"npm test"}}),
	}
	key := subjectOf(base).key
	for _, r := range same {
		assert.Equal(t, key, subjectOf(r).key, "%+v", r.Effect)
	}
	keys := map[string]bool{key: true}
	for _, r := range others {
		k := subjectOf(r).key
		assert.False(t, keys[k], "%+v", r.Effect)
		keys[k] = true
	}

	write := func(path, content string) gate.Request {
		raw, _ := json.Marshal(map[string]string{"path": path, "content": content})
		return gate.Request{Name: "write", Input: raw, Effect: capabilities.Effect{Paths: []string{path}}}
	}
	assert.Equal(t, subjectOf(write("a", "1")).key, subjectOf(write("a", "2")).key, "whatever the content")
	assert.NotEqual(t, subjectOf(write("a", "1")).key, subjectOf(write("b", "1")).key)
	assert.Contains(t, subjectOf(write("a", "the content")).what, "the content", "but it is shown")

	start := gate.Request{Name: "process.start", Method: true, Input: []byte(`{"process_id":"p","argv":["x"],"wait_ms":5}`)}
	again := start
	again.Input = []byte(`{"wait_ms":9,"argv":["x"],"process_id":"p"}`)
	assert.Equal(t, subjectOf(start).again, subjectOf(again).again)
	again.Input = []byte(`{"argv":["y"],"process_id":"p"}`)
	assert.NotEqual(t, subjectOf(start).again, subjectOf(again).again)

	long := subjectOf(bash(capabilities.Effect{Script: "echo " + strings.Repeat("x", 50_000) + "; rm y"}))
	assert.Less(t, len(long.what), 40_000)
	assert.Contains(t, long.what, "bytes more are not shown")
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"ls": "ls", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "a\nb": `$'a\nb'`, "\x1b[2J": `$'\x1b[2J'`, "$X": "'$X'", "-la": "-la"} {
		assert.Equal(t, want, quote(in))
	}
}

// Secrets are in no line, and no line is long.
func TestWhatIsWrittenDown(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Dir: dir})
	require.NoError(t, err)
	defer log.Close()
	g := New(Options{Audit: log, Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2hunter2", "[redacted]") }})
	session := capabilities.NewSession(t.Context(), capabilities.SessionConfig{Assign: protocol.SessionAssignParams{SessionID: "s1", AgentID: "agent", Metadata: map[string]string{"user": "ana"}}})
	raw, _ := json.Marshal(map[string]string{"command": "login hunter2hunter2 " + strings.Repeat("x", 1<<20)})
	v := g.Decide(gate.Request{Brain: "wss://b/", Session: session, Name: "bash", ID: "c1", Input: raw})
	require.NoError(t, v.Refuse)
	mutations := make([]protocol.Mutation, 500)
	for i := range mutations {
		mutations[i] = protocol.Mutation{Op: "create", Path: "hunter2hunter2"}
	}
	v.Ended(gate.End{Outcome: protocol.OutcomeSucceeded, Mutations: mutations})
	v.Ended(gate.End{Outcome: protocol.OutcomeFailed})
	var list []audit.Entry
	require.NoError(t, audit.Read(dir, func(e audit.Entry) error {
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "hunter2")
		assert.Less(t, len(raw), 16<<10)
		list = append(list, e)
		return nil
	}))
	require.Len(t, list, 3)
	decided, end := list[1], list[2]
	assert.Equal(t, "ana", decided.User)
	assert.Equal(t, "agent", decided.Agent)
	assert.Equal(t, len(raw), decided.InputBytes)
	assert.Equal(t, "trust full", decided.Rule)
	assert.Equal(t, decided.Seq, end.Of)
	assert.Len(t, end.Mutations, 50)
	assert.Equal(t, 450, end.More)
}

// Without anybody to ask, what would be asked about is denied; a policy that is changed holds from then on.
func TestNobodyToAskAndAnotherPolicy(t *testing.T) {
	ask, err := policy.New(policy.Options{Trust: policy.TrustAsk})
	require.NoError(t, err)
	g := New(Options{Policy: ask})
	v := g.Decide(gate.Request{Name: "x"})
	require.NoError(t, v.Refuse)
	var e *protocol.Error
	require.ErrorAs(t, v.Wait(t.Context()), &e)
	assert.Equal(t, protocol.ReasonLocalConfirmationDenied, e.Reason())
	g.SetPolicy(nil)
	v = g.Decide(gate.Request{Name: "x"})
	assert.Nil(t, v.Wait)
	v = g.Decide(gate.Request{Name: "x", AlwaysAsk: true})
	assert.NotNil(t, v.Wait)
}

// What the gate costs a call: two lines in the log.
func BenchmarkGate(b *testing.B) {
	log, err := audit.Open(audit.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	defer log.Close()
	for name, o := range map[string]Options{"nothing": {}, "audit": {Audit: log}} {
		b.Run(name, func(b *testing.B) {
			g := New(o)
			r := gate.Request{Brain: "wss://brain/executor", Name: "bash", ID: "call_1", Input: []byte(`{"command":"go test ./..."}`), Effect: capabilities.Effect{Script: "go test ./..."}}
			for b.Loop() {
				v := g.Decide(r)
				if v.Ended != nil {
					v.Ended(gate.End{Outcome: protocol.OutcomeSucceeded})
				}
			}
		})
	}
}
