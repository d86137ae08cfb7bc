//go:build unix

package gateway_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// module is a small Go module with a bug in it.
var module = map[string]string{
	"go.mod": "module example.test/stats\n\ngo 1.22\n",
	"stats.go": `package stats

// Mean is the arithmetic mean; 0 of nothing.
func Mean(xs []float64) float64 {
	sum := 0.0
	for i := 1; i < len(xs); i++ {
		sum += xs[i]
	}
	if len(xs) == 0 {
		return 0
	}
	return sum / float64(len(xs))
}
`,
	"stats_test.go": `package stats

import "testing"

func TestMean(t *testing.T) {
	if got := Mean([]float64{2, 4, 6}); got != 4 {
		t.Fatalf("mean of 2, 4, 6 is %v, not 4", got)
	}
}
`,
}

// repository is the module in a repository of its own.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range module {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "t"}, {"config", "user.email", "t@example.test"},
		{"add", "."}, {"commit", "-qm", "start"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return dir
}

// everything is all that comes with the executor.
func everything(dir string) []capabilities.Capability {
	roots := []capabilities.Root{{Path: dir}}
	return standard.All(standard.Config{Roots: roots})
}

// A coding session: find the bug, mend it, run the tests, commit. Then the same while the
// executor's connection is cut in the middle of two calls.
func TestCodingSession(t *testing.T) {
	for _, name := range []string{"whole", "cut"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real(t, gateway.Options{}, func(t *testing.T, w *world) {
				dir := repository(t)
				w.executorIn(dir, "one", everything(dir)...)
				w.ready(1)
				c := w.client(nil)
				ok := func(tool string, input map[string]any) string {
					t.Helper()
					r := w.call(c, tool, input)
					require.False(t, r.IsError, text(r))
					return text(r)
				}
				// cutting cuts the connection when the command has said so.
				cutting := func(command string) *mcp.CallToolResult {
					t.Helper()
					if name != "cut" {
						return w.call(c, "run_shell", map[string]any{"command": command})
					}
					mark := filepath.Join(dir, "mark")
					got := make(chan *mcp.CallToolResult)
					go func() {
						got <- w.call(c, "run_shell", map[string]any{"command": "echo ran >> runs; touch mark; sleep 0.3; " + command})
					}()
					require.Eventually(t, func() bool { _, err := os.Stat(mark); return err == nil }, 20*time.Second, 5*time.Millisecond)
					w.faults.CutNow()
					require.NoError(t, os.Remove(mark))
					return <-got
				}

				require.Contains(t, ok("list_files", map[string]any{"path": "."}), "stats.go")
				r := cutting("go test -vet=off ./... 2>&1")
				require.True(t, r.IsError)
				require.Contains(t, text(r), "is 3.3333333333333335, not 4")
				require.Contains(t, ok("grep", map[string]any{"pattern": "func Mean"}), "stats.go")
				require.Contains(t, ok("read", map[string]any{"path": "stats.go"}), "for i := 1; i < len(xs); i++ {")
				r = w.call(c, "edit", map[string]any{"path": "stats.go", "old_string": "for i := 2;", "new_string": "for i := 0;"})
				require.True(t, r.IsError, "what is not there is not edited")
				ok("edit", map[string]any{"path": "stats.go", "old_string": "for i := 1;", "new_string": "for i := 0;"})
				r = cutting("go test -vet=off ./... 2>&1")
				require.False(t, r.IsError, text(r))
				require.Contains(t, text(r), "ok")
				require.Contains(t, ok("git", map[string]any{"subcommand": "diff"}), "+\tfor i := 0;")
				ok("run_shell", map[string]any{"command": "git commit -qam 'stats: the mean of all'"})
				require.Contains(t, ok("git", map[string]any{"subcommand": "log", "args": []string{"--oneline"}}), "the mean of all")
				if name == "cut" {
					raw, err := os.ReadFile(filepath.Join(dir, "runs"))
					require.NoError(t, err)
					require.Equal(t, "ran\nran\n", string(raw), "each ran once")
				}
			})
		})
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{MaxResourceBytes: 300_000}, func(t *testing.T, w *world) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		put := func(name, content string) string {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			return "file://" + path
		}
		long := strings.Repeat("ä line of text that is not short\n", 8000)
		png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
		plain, far, below, bytes := put("a.txt", "one\ntwo"), put("long.txt", long), put("sub/odd name#?.txt", "x"), put("data.bin", "\x00\x01\xff\xfe")
		put("picture.png", png)
		huge := put("huge.txt", strings.Repeat("x\n", 200_000))
		below = strings.NewReplacer("#", "%23", "?", "%3F", " ", "%20").Replace(below)
		w.executorIn(dir, "one", everything(dir)...)
		w.ready(1)
		c := w.client(nil)

		templates, err := c.ListResourceTemplates(w.ctx, nil)
		require.NoError(t, err)
		require.Equal(t, "file:///{+path}", templates.ResourceTemplates[0].URITemplate)
		list, err := c.ListResources(w.ctx, nil)
		require.NoError(t, err)
		var names []string
		for _, r := range list.Resources {
			names = append(names, r.Name)
			if r.Name == "a.txt" {
				require.Equal(t, plain, r.URI)
			}
		}
		require.ElementsMatch(t, []string{"a.txt", "long.txt", "data.bin", "picture.png", "huge.txt"}, names)

		read := func(uri string) (*mcp.ResourceContents, error) {
			r, err := c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: uri})
			if err != nil {
				return nil, err
			}
			return r.Contents[0], nil
		}
		for uri, want := range map[string]string{plain: "one\ntwo", far: long, below: "x"} {
			got, err := read(uri)
			require.NoError(t, err, uri)
			require.Equal(t, want, got.Text)
			require.Equal(t, uri, got.URI)
		}
		got, err := read(bytes)
		require.NoError(t, err)
		require.Equal(t, "\x00\x01\xff\xfe", string(got.Blob))
		require.Equal(t, "application/octet-stream", got.MIMEType)
		for uri, says := range map[string]string{
			huge:                    "at most 300000",
			"file:///etc/passwd":    "workspace_boundary",
			"file://" + dir + "/no": "not found",
			"file://" + dir:         "read",
			"http://x/y":            "not found",
			"file://host" + dir:     "not found",
		} {
			_, err := read(uri)
			require.ErrorContains(t, err, says, uri)
		}
	})
}
