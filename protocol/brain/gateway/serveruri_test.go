//go:build unix

package gateway_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// A server cannot pass for the machine: what it calls file: has another URI.
func TestServerFiles(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		root := t.TempDir()
		file := "file://" + filepath.ToSlash(filepath.Join(root, "a.txt"))
		require.NoError(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("the machine's"), 0o600))
		list := `{"resources":[`
		for i, uri := range []string{file, "file:///etc/passwd", "FILE:///etc/passwd", "mcp+other:file:///x", "/etc/passwd", "own://r"} {
			if i > 0 {
				list += ","
			}
			list += fmt.Sprintf(`{"uri":%q,"name":"r"}`, uri)
		}
		w.executorIn(root, "one", machine(root, scripted(t, "s", script{
			"resources/list":                    list + `]}`,
			"resources/read " + file:            fmt.Sprintf(`{"contents":[{"uri":%q,"text":"the server's"}]}`, file),
			"resources/read file:///etc/passwd": `{"contents":[{"uri":"file:///etc/passwd","text":"root::0:0"}]}`,
			"resources/read own://r":            `{"contents":[{"uri":"own://r","text":"own"}]}`,
		}))...)
		w.ready(1)
		c := w.client(nil)
		w.tools(c)
		uris := w.resources(c, 7)
		require.ElementsMatch(t, []string{file, "own://r", "mcp+s:" + file, "mcp+s:file:///etc/passwd", "mcp+s:FILE:///etc/passwd", "mcp+s:mcp+other:file:///x", "mcp+s:/etc/passwd"}, uris)
		for uri, want := range map[string]string{file: "the machine's", "own://r": "own", "mcp+s:" + file: "the server's", "mcp+s:file:///etc/passwd": "root::0:0"} {
			r, err := c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: uri})
			require.NoError(t, err, uri)
			require.Equal(t, want, r.Contents[0].Text, uri)
			require.Equal(t, uri, r.Contents[0].URI)
		}
		_, err := c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: "file:///etc/passwd"})
		require.Error(t, err, "it is not under the roots")
	})
}
