package files

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a workspace with one capability and a session in it.
type bench struct {
	t        testing.TB
	base     string // the workspace is base/ws
	registry *capabilities.Registry
	session  *capabilities.Session
	files    *Files
}

func newBench(t testing.TB) *bench {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(base, "ws"), 0o755))
	b := &bench{t: t, base: base, registry: capabilities.NewRegistry(nil), files: New(Options{})}
	require.NoError(t, b.registry.Install(b.files))
	b.session = b.newSession(capabilities.Root{Path: b.path()})
	return b
}

// newSession starts one more session over roots.
func (b *bench) newSession(roots ...capabilities.Root) *capabilities.Session {
	b.t.Helper()
	w, err := capabilities.OpenWorkspace(roots[0].Path, roots)
	require.NoError(b.t, err)
	s := capabilities.NewSession(b.t.Context(), capabilities.SessionConfig{Workspace: w})
	require.NoError(b.t, b.registry.StartSession(b.t.Context(), s))
	b.t.Cleanup(func() {
		b.registry.EndSession(s)
		assert.NoError(b.t, w.Close())
	})
	return s
}

// path is a path in the workspace.
func (b *bench) path(names ...string) string {
	return filepath.Join(append([]string{b.base, "ws"}, names...)...)
}

// put writes a file past the tools.
func (b *bench) put(name, content string) {
	b.t.Helper()
	path := b.path(name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), 0o644))
}

func (b *bench) get(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(b.path(name))
	require.NoError(b.t, err)
	return string(content)
}

// names lists a directory of the workspace, so that litter shows.
func (b *bench) names(dir string) []string {
	b.t.Helper()
	entries, err := os.ReadDir(b.path(dir))
	require.NoError(b.t, err)
	all := []string{}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

type obj = map[string]any

func (b *bench) call(tool string, input obj) (protocol.ToolOutput, error) {
	b.t.Helper()
	return b.callIn(b.t.Context(), b.session, tool, input)
}

func (b *bench) callIn(ctx context.Context, s *capabilities.Session, tool string, input obj) (protocol.ToolOutput, error) {
	b.t.Helper()
	raw, err := json.Marshal(input)
	require.NoError(b.t, err)
	r, ok := b.registry.Tool(tool)
	require.True(b.t, ok, tool)
	handler, err := r.Prepare(raw)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	c := capabilities.NewCall(capabilities.CallConfig{Session: s, ID: "c", Tool: r, Input: raw})
	defer c.Close()
	out, err := handler(ctx, c)
	for _, block := range out.Content {
		assert.NotContains(b.t, block.Text, "\x00")
		assert.True(b.t, len(block.Text) <= protocol.DefaultInlineResult || input["full"] == true, "%d bytes", len(block.Text))
	}
	return out, err
}

// read calls read, which must work, and returns text and structured result.
func (b *bench) read(input obj) (string, readOutput) {
	b.t.Helper()
	out, err := b.call("read", input)
	require.NoError(b.t, err)
	return out.Content[0].Text, out.Structured.(readOutput)
}

func (b *bench) write(input obj) (protocol.ToolOutput, writeOutput) {
	b.t.Helper()
	out, err := b.call("write", input)
	require.NoError(b.t, err)
	return out, out.Structured.(writeOutput)
}

// refused wants the call to fail for that reason.
func (b *bench) refused(want, tool string, input obj) string {
	b.t.Helper()
	_, err := b.call(tool, input)
	return refusal(b.t, want, err)
}

func refusal(t testing.TB, want string, err error) string {
	t.Helper()
	var e *protocol.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, want, e.Reason(), e.Message)
	return e.Message
}

func TestInstall(t *testing.T) {
	r := capabilities.NewRegistry(nil)
	require.NoError(t, r.Install(New(Options{Roots: []capabilities.Root{{Path: "/w"}, {Path: "/docs", ReadOnly: true}}})))
	var got protocol.FilesDetails
	ok, err := r.Capabilities().Get(protocol.CapabilityFiles, &got)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, protocol.FilesDetails{Enabled: true, ReadRoots: []string{"/w", "/docs"}, WriteRoots: []string{"/w"}}, got)
	assert.Equal(t, []string{"copy", "delete", "diff", "edit", "glob", "grep", "list_files", "mkdir", "move", "multi_edit", "read", "set_executable", "stat", "write"}, r.ToolNames())
	for _, name := range r.ToolNames() {
		tool, _ := r.Tool(name)
		assert.NotEmpty(t, tool.Info().Description)
		assert.True(t, strings.HasPrefix(string(tool.Info().InputSchema), "{"))
	}
}

func TestInputsAreChecked(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		tool  string
		input obj
	}{
		{"read", obj{}},
		{"read", obj{"path": ""}},
		{"read", obj{"path": "f", "ofset": 1}},
		{"read", obj{"path": "f", "offset": -1}},
		{"read", obj{"path": "f", "limit": -1}},
		{"read", obj{"path": "a\x00b"}},
		{"write", obj{"path": "f"}},
		{"write", obj{"path": "f", "content": "", "mode": "append"}},
		{"write", obj{"path": "f/", "content": ""}},
		{"write", obj{"path": "", "content": ""}},
		{"write", obj{"path": ".", "content": ""}},
	} {
		b.refused("invalid_params", c.tool, c.input)
	}
	assert.Empty(t, b.names(""))
}
