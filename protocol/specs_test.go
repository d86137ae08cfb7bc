package protocol_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// The method table as the contract has it, written down a second time:
// name, sender, kind (R request, N notification), gate, and x for an extension.
const contractTable = `
executor.register executor R -
executor.heartbeat executor R -
executor.token_refresh executor R -
executor.capabilities_update executor N -
executor.drain brain R -
executor.close both N -
session.assign brain R -
session.ready executor R -
session.status executor N -
session.stop brain R -
session.ended executor R -
session.close brain R agent
session.event executor R agent
session.event_delta executor N agent
session.wake executor R scripts x
tool.call brain R -
tool.cancel brain R -
tool.progress executor N -
tool.result executor R -
process.start brain R process
process.read brain R process
process.write brain R process
process.interrupt brain R process
process.terminate brain R process
process.list brain R process
process.status executor N process
process.resize brain R process.pty x
process.subscribe brain R process.push x
process.output executor N process.push x
process.ack brain N process.push x
terminal.open brain R terminal
terminal.attach brain R terminal
terminal.close brain R terminal
turn.start brain R agent
turn.input brain R agent
turn.cancel brain R agent
interaction.request executor R agent
interaction.response brain R agent
interaction.cancel executor R agent
skill.install brain R skills.install
workspace.backup brain R workspace.backup
fs.mount brain R fs
fs.unmount brain R fs
`

func TestSpecsAreThoseOfTheContract(t *testing.T) {
	var b strings.Builder
	for _, s := range protocol.Specs() {
		kind, gate, ext := "R", "-", ""
		if s.Notify {
			kind = "N"
		}
		if s.Capability != "" {
			gate = s.Capability
		}
		if s.Extension {
			ext = " x"
		}
		fmt.Fprintf(&b, "\n%s %s %s %s%s", s.Name, s.From, kind, gate, ext)
	}
	require.Equal(t, contractTable, b.String()+"\n")
}

func TestEveryRepeatIsHarmless(t *testing.T) {
	for _, m := range methods() {
		assert.NotEmpty(t, m.Repeat, "%s: why may it be repeated?", m.Name)
		// A repeat key that looks like a member is one.
		for key := range strings.SplitSeq(m.Repeat, " + ") {
			if strings.Contains(key, "_id") {
				assert.Contains(t, members(m.params), key, m.Name)
			}
		}
	}
}

// Specs lists what is declared: every package variable made of a Method or a
// Notification.
func TestSpecsListsEveryDeclaredMethod(t *testing.T) {
	declared := map[string]bool{}
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "Spec" {
				for _, e := range lit.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "Name" {
						declared[strings.Trim(kv.Value.(*ast.BasicLit).Value, `"`)] = true
					}
				}
			}
			return true
		})
	}
	for _, s := range protocol.Specs() {
		assert.True(t, declared[s.Name], s.Name)
		delete(declared, s.Name)
	}
	assert.Empty(t, declared, "declared, but not in Specs")
}

func TestSpecsIsTheCallersOwn(t *testing.T) {
	protocol.Specs()[0].Name = "changed"
	assert.Equal(t, "executor.register", protocol.Specs()[0].Name)
}

func TestCanonicalName(t *testing.T) {
	for spelling, want := range map[string]string{
		"executor.token.refresh":       "executor.token_refresh",
		"executor.capabilities.update": "executor.capabilities_update",
		"session.event.delta":          "session.event_delta",
		"executor.nothing":             "executor.nothing",
		"":                             "",
	} {
		assert.Equal(t, want, protocol.CanonicalName(spelling))
	}
	for _, s := range protocol.Specs() {
		assert.Equal(t, s.Name, protocol.CanonicalName(s.Name))
	}
}

// A call and its cancel, an assign and its stop, and the writes of one process
// keep their order; what waits for long shares no lane with what ends it.
func TestLanes(t *testing.T) {
	call := protocol.ToolCall.Lane(protocol.ToolCallParams{SessionID: "s", ToolCallID: "c"})
	assert.Equal(t, call, protocol.ToolCancel.Lane(protocol.ToolCancelParams{SessionID: "s", ToolCallID: "c"}))
	assert.NotEqual(t, call, protocol.ToolCall.Lane(protocol.ToolCallParams{SessionID: "s", ToolCallID: "d"}))

	assert.Equal(t, protocol.SessionReady.Lane(protocol.SessionReadyParams{SessionID: "s"}),
		protocol.SessionEnded.Lane(protocol.SessionEndedParams{SessionID: "s"}))

	assign := protocol.SessionAssign.Lane(protocol.SessionAssignParams{SessionID: "s"})
	assert.Equal(t, assign, protocol.SessionStop.Lane(protocol.SessionStopParams{SessionID: "s"}))

	write := protocol.ProcessWrite.Lane(protocol.ProcessWriteParams{SessionID: "s", ProcessID: "p"})
	assert.NotEqual(t, write, protocol.ProcessWrite.Lane(protocol.ProcessWriteParams{SessionID: "s", ProcessID: "q"}))
	assert.Nil(t, protocol.ProcessRead.Lane)
	assert.Nil(t, protocol.ProcessTerminate.Lane)

	out := protocol.ProcessSubscribe.Lane(protocol.ProcessSubscribeParams{SessionID: "s", ProcessID: "p", Stream: "stdout"})
	assert.NotEqual(t, out, protocol.ProcessSubscribe.Lane(protocol.ProcessSubscribeParams{SessionID: "s", ProcessID: "p", Stream: "stderr"}))

	assert.Equal(t, protocol.ToolResult.Lane(protocol.ToolResultParams{SessionID: "s", ToolCallID: "c"}),
		protocol.ToolResult.Lane(protocol.ToolResultParams{SessionID: "t", ToolCallID: "d"}), "oldest first")

	turn := protocol.TurnStart.Lane(protocol.TurnStartParams{SessionID: "s"})
	assert.Equal(t, turn, protocol.TurnInput.Lane(protocol.TurnInputParams{SessionID: "s"}))
	assert.Equal(t, turn, protocol.TurnCancel.Lane(protocol.TurnCancelParams{SessionID: "s"}))

	terminal := protocol.TerminalOpen.Lane(protocol.TerminalOpenParams{TerminalID: "t"})
	assert.Equal(t, terminal, protocol.TerminalAttach.Lane(protocol.TerminalAttachParams{TerminalID: "t"}))
	assert.Equal(t, terminal, protocol.TerminalClose.Lane(protocol.TerminalCloseParams{TerminalID: "t"}))

	assert.Equal(t, protocol.FSMount.Lane(protocol.FSMountParams{SessionID: "s"}), protocol.FSUnmount.Lane(protocol.FSUnmountParams{SessionID: "s"}))
	assert.NotEmpty(t, protocol.SkillInstall.Lane(protocol.SkillInstallParams{SkillID: "k"}))
	assert.NotEmpty(t, protocol.ProcessResize.Lane(protocol.ProcessResizeParams{SessionID: "s", ProcessID: "p"}))
}
