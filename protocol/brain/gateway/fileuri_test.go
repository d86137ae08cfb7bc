//go:build unix

package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// Every file is a resource, whatever its name is made of.
func TestFileNames(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		root := t.TempDir()
		names := map[string]string{"caf%E9.txt": "caf\xe9.txt", "it's%5C%E9%0A%FF.txt": "it's\\\xe9\n\xff.txt", "plain%20%25%3F%23.txt": "plain %?#.txt", "%C3%A9.txt": "é.txt", "$'x'": "$'x'", "two%0Alines": "two\nlines", "%E2%80%AE": "\u202e"}
		for _, name := range names {
			if os.WriteFile(filepath.Join(root, name), []byte("of "+name), 0o600) != nil {
				t.Skip("names here are text")
			}
		}
		blob := "blob\xe9"
		require.NoError(t, os.WriteFile(filepath.Join(root, blob), []byte("\x00\xff"), 0o600))
		w.executorIn(root, "one", machine(root)...)
		w.ready(1)
		c := w.client(nil)
		listed := map[string]bool{}
		for r, err := range c.Resources(w.ctx, nil) {
			require.NoError(t, err)
			listed[r.URI] = true
		}
		for escaped, name := range names {
			for _, start := range []string{"file://", "file://localhost", "file://LOCALHOST", "file:"} {
				uri := start + root + "/" + escaped
				r, err := c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: uri})
				require.NoError(t, err, uri)
				require.Equal(t, strings.ToValidUTF8(strings.ReplaceAll(strings.ReplaceAll("of "+name, "\xe9", "\uFFFD"), "\xff", "\uFFFD"), "\uFFFD"), r.Contents[0].Text, uri)
				require.Equal(t, uri, r.Contents[0].URI)
			}
		}
		require.Len(t, listed, len(names)+1, listed)
		for uri := range listed {
			_, err := c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: uri})
			require.NoError(t, err, uri)
		}
		r, err := c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: "file://" + root + "/blob%E9"})
		require.NoError(t, err)
		require.Equal(t, "\x00\xff", string(r.Contents[0].Blob))
		_, err = c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: "file://elsewhere" + root + "/caf%E9.txt"})
		require.Error(t, err)
	})
}
