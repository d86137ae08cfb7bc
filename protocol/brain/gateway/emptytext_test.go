//go:build unix

package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// What is empty goes over the wire as an empty text: strict clients take no contents
// without text and blob.
func TestEmptyTexts(t *testing.T) {
	t.Parallel()
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		root := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(root, "empty.txt"), nil, 0o600))
		w.executorIn(root, "one", machine(root, scripted(t, "s", script{
			"tools/list":             `{"tools":[{"name":"get","inputSchema":{"type":"object"}}]}`,
			"tools/call get":         `{"content":[{"type":"resource","resource":{"uri":"own://r","text":""}}]}`,
			"prompts/list":           `{"prompts":[{"name":"p"}]}`,
			"prompts/get p":          `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"own://r","text":""}}}]}`,
			"resources/list":         `{"resources":[{"uri":"own://r","name":"r"}]}`,
			"resources/read own://r": `{"contents":[{"uri":"own://r","text":""},{"uri":"own://r/2","text":"x"}]}`,
		}))...)
		w.ready(1)
		ask := w.wire()
		ask("tools/list", `{}`)
		w.until("its resources", func() bool { return strings.Contains(ask("resources/list", `{}`), "own://r") })
		file := "file://" + filepath.ToSlash(filepath.Join(root, "empty.txt"))
		require.Contains(t, ask("resources/read", fmt.Sprintf(`{"uri":%q}`, file)), `"text":""`)
		require.Contains(t, ask("resources/read", `{"uri":"own://r"}`), `"text":""`)
		require.Contains(t, ask("tools/call", `{"name":"s__get"}`), `"blob":""`)
		require.Contains(t, ask("prompts/get", `{"name":"s__p"}`), `"blob":""`)
	})
}

// wire is a client of lines: it asks, and returns the line of the answer.
func (w *world) wire() (ask func(method, params string) string) {
	here, there := net.Pipe()
	w.work.Go(func() { _ = w.gate.Serve(w.ctx, gateway.Lines(there, there)) })
	w.ends = append([]func(){func() { _ = here.Close() }}, w.ends...)
	in, id := bufio.NewReader(here), 0
	say := func(line string) {
		_, err := fmt.Fprintln(here, line)
		require.NoError(w.t, err)
	}
	ask = func(method, params string) string {
		w.t.Helper()
		id++
		say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
		for {
			line, err := in.ReadString('\n')
			require.NoError(w.t, err)
			if m := (struct {
				ID *int `json:"id"`
			}{}); jsonOf(line, &m) && m.ID != nil && *m.ID == id {
				return line
			}
		}
	}
	ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}`)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return ask
}

func jsonOf(line string, v any) bool { return json.Unmarshal([]byte(line), v) == nil }
