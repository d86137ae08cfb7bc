//go:build unix

package exec

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Setenv("EXECUTOR_TOKEN", "the-executors-own")
	os.Setenv("SOME_API_KEY", "sk-0123456789abcdef0123")
	goleak.VerifyTestMain(m)
}

var tools = []Tool{
	{Name: "show_args", Command: []string{"printf", "[%s]"}, Description: "Show the arguments."},
	{Name: "script", Command: []string{"sh", "-c"}, Timeout: 20 * time.Second},
	{Name: "absent", Command: []string{"no-such-program-anywhere"}},
}

// bench is a session with the tools in a workspace.
type bench struct {
	t    *testing.T
	base string // the workspace is base/ws
	*capabilitytest.Session
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(base, "ws"), 0o755))
	w, err := capabilities.OpenWorkspace(filepath.Join(base, "ws"), []capabilities.Root{{Path: filepath.Join(base, "ws")}})
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	o.LoginEnv = map[string]string{}
	if o.Tools == nil {
		o.Tools = tools
	}
	s := capabilitytest.NewHost(t, New(o)).NewSession(t, capabilitytest.Options{Workspace: w, Env: map[string]string{"SESSION_VARIABLE": "of the session"}})
	return &bench{t: t, base: base, Session: s}
}

type obj = map[string]any

// answer is a tool.result as a brain reads it.
type answer struct {
	protocol.ToolResultParams
	text   string
	fields obj
}

func (b *bench) call(ctx context.Context, tool string, input obj) answer {
	b.t.Helper()
	r, err := capabilitytest.CallContext(ctx, b.t, b.Session, tool, input)
	require.NoError(b.t, err)
	a := answer{ToolResultParams: r, fields: obj{}}
	for _, c := range r.Content {
		a.text += c.Text
	}
	if r.Structured != nil {
		require.NoError(b.t, json.Unmarshal(r.Structured, &a.fields))
	}
	return a
}

func (b *bench) run(tool string, args ...string) answer {
	b.t.Helper()
	return b.call(b.t.Context(), tool, obj{"args": args})
}

func TestContract(t *testing.T) {
	capabilitytest.Run(t, func() capabilities.Capability { return New(Options{Tools: tools, LoginEnv: map[string]string{}}) })
}

func TestNothingIsRegisteredWithoutTools(t *testing.T) {
	r := capabilities.NewRegistry(nil)
	require.NoError(t, r.Install(New(Options{})))
	assert.Empty(t, r.ToolNames())
}

func TestToolsThatCannotBe(t *testing.T) {
	for says, list := range map[string][]Tool{
		"tool 1: name: is missing":               {{Command: []string{"make"}}},
		`tool 1: name: "Make it" is no name`:     {{Name: "Make it", Command: []string{"make"}}},
		"tool 2: command: is missing":            {tools[0], {Name: "b"}},
		"tool 2: name: there is a tool":          {tools[0], tools[0]},
		"tool 1: command: contains a NUL":        {{Name: "b", Command: []string{"a\x00b"}}},
		"tool 1: timeout: -1s is negative":       {{Name: "b", Command: []string{"b"}, Timeout: -time.Second}},
		`the name "taken" is taken: taken has a`: {{Name: "taken", Command: []string{"b"}}},
	} {
		r := capabilities.NewRegistry(nil)
		require.NoError(t, r.Install(capabilities.Func("taken", "A tool.", func(context.Context, *capabilities.Call, struct{}) (protocol.ToolOutput, error) {
			return protocol.ToolOutput{}, nil
		})))
		assert.ErrorContains(t, r.Install(New(Options{Tools: list})), says)
		assert.Equal(t, []string{"taken"}, r.ToolNames())
	}
}

func TestArgumentsAreNoSyntax(t *testing.T) {
	b := newBench(t, Options{})
	a := b.run("show_args", "a b", "", "$(id)", "`id`", "; id", "*", "|", "--", "-x", `"`, "é")
	assert.Equal(t, protocol.OutcomeSucceeded, a.Outcome, a.text)
	assert.Equal(t, "[a b][][$(id)][`id`][; id][*][|][--][-x][\"][é]", a.fields["stdout"])
	assert.Equal(t, "[\ufffd]", b.run("show_args", `$'\xff'`).fields["stdout"], "a name that is not plain text")
	assert.Equal(t, "[]", b.call(t.Context(), "show_args", obj{}).fields["stdout"])
}

func TestAnExitCodeIsData(t *testing.T) {
	b := newBench(t, Options{})
	a := b.run("script", "echo out; echo err >&2; exit 3")
	assert.Equal(t, protocol.OutcomeSucceeded, a.Outcome)
	assert.True(t, a.IsError)
	assert.Nil(t, a.Error)
	assert.Equal(t, 3.0, a.fields["exit_code"])
	assert.Equal(t, "out\n[stderr]\nerr\n[exit code 3]\n", a.text)
	a = b.run("script", "kill -9 $$")
	assert.Equal(t, "SIGKILL", a.fields["exit_signal"])
	assert.Equal(t, 137.0, a.fields["exit_code"])
	assert.Equal(t, "[no output, exit code 0]\n", b.run("script", "true").text)
	assert.Equal(t, filepath.Join(b.base, "ws")+"\n", b.run("script", "pwd; cat").text, "in the workspace, with nothing to read")
}

func TestItDoesNotStart(t *testing.T) {
	b := newBench(t, Options{})
	a := b.run("absent")
	assert.Equal(t, protocol.OutcomeFailed, a.Outcome)
	assert.Equal(t, "spawn_failed", a.Error.Reason)
	assert.Contains(t, a.Error.Message, "no-such-program-anywhere: command not found (PATH=")
}

func TestTheEnvironmentIsThatOfCommands(t *testing.T) {
	text := newBench(t, Options{}).run("script", "env").text
	assert.Contains(t, text, "SESSION_VARIABLE=of the session")
	assert.NotContains(t, text, "the-executors-own")
	assert.NotContains(t, text, "sk-0123456789")
	assert.Contains(t, text, "PAGER=cat")
}

func TestTimeLimits(t *testing.T) {
	b := newBench(t, Options{Grace: 100 * time.Millisecond})
	a := b.call(t.Context(), "script", obj{"args": []string{"echo begun; sleep 30 & sleep 30"}, "timeout_ms": 300})
	assert.Equal(t, "timeout", a.Error.Reason)
	assert.Contains(t, a.text, "begun")
	assert.Nil(t, a.fields["exit_code"])
	assert.Equal(t, true, a.fields["timed_out"])
	a = b.call(t.Context(), "script", obj{"args": []string{"true"}, "timeout_ms": 600_001})
	assert.Equal(t, "timeout_ms: 600001 is more than the longest, 600000", a.Error.Message)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	a = b.call(ctx, "script", obj{"args": []string{"sleep 30"}})
	assert.Equal(t, "the deadline of the call passed and the program was ended", a.Error.Message)
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	a = b.call(ctx, "script", obj{"args": []string{"sleep 30"}})
	assert.Equal(t, protocol.OutcomeCanceled, a.Outcome)

	_, err := capabilitytest.Call(t, b.Session, "script", obj{"timeout_ms": -1})
	assert.ErrorContains(t, err, "timeout_ms: is negative")
	_, err = capabilitytest.Call(t, b.Session, "script", obj{"args": []string{"a\x00"}})
	assert.ErrorContains(t, err, "args[0]: contains a NUL")
	_, err = capabilitytest.Call(t, b.Session, "script", obj{"arg": []string{}})
	assert.ErrorContains(t, err, "args")
}

func TestWhatIsLeftRunningIsListed(t *testing.T) {
	b := newBench(t, Options{})
	a := b.run("script", "sleep 60 & echo $!")
	assert.Equal(t, protocol.OutcomeSucceeded, a.Outcome)
	assert.Len(t, a.fields["background"], 1)
	assert.Contains(t, a.text, "still running in the background: pid ")
	b.End()
	pid := strings.TrimSpace(a.fields["stdout"].(string))
	command, _ := os.ReadFile("/proc/" + pid + "/cmdline") // empty for one that nobody has waited for
	assert.Empty(t, string(command), "it ends with the session")
}

func TestLongOutputIsKept(t *testing.T) {
	b := newBench(t, Options{InlineBytes: 8 << 10})
	a := b.run("script", "i=0; while [ $i -lt 3000 ]; do echo line $i of the output; i=$((i+1)); done; echo the verdict >&2")
	assert.Equal(t, true, a.fields["truncated"])
	assert.LessOrEqual(t, len(a.text), 8<<10)
	assert.Contains(t, a.text, "the verdict")
	assert.Contains(t, a.text, "line 2999 of the output")
	whole, err := os.ReadFile(filepath.Join(b.base, "ws", a.fields["output_file"].(string)))
	require.NoError(t, err)
	assert.Contains(t, string(whole), "line 1500 of the output")
}
