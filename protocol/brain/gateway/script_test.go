package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/protocol"
)

// script is what a hand-written MCP server answers: results by method, those of
// tools/call and resources/read also by "METHOD NAME". A result may be no JSON at all.
type script map[string]string

// scripted is this test binary as a server that follows a script, whatever it says.
func scripted(t *testing.T, key string, s script) protocol.MCPServer {
	t.Helper()
	server := own(t, key)
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	server.Transport.Env = map[string]string{"GATEWAY_TEST_SERVER": "script", "GATEWAY_TEST_SCRIPT": string(raw)}
	return server
}

// machine is all that comes with the executor, with these servers.
func machine(dir string, list ...protocol.MCPServer) []capabilities.Capability {
	all := slices.DeleteFunc(standard.All(standard.Config{Roots: []capabilities.Root{{Path: dir}}}), func(c capabilities.Capability) bool { return c.Name() == protocol.CapabilityMCP })
	return append(all, servers(list...))
}

// until waits until something is so that comes by itself.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); {
		if time.Now().After(end) {
			w.t.Fatal("not so: " + what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// listed waits until that many tools are there, of servers that may be slow to start.
func (w *world) listed(c *mcp.ClientSession, n int) map[string]*mcp.Tool {
	w.t.Helper()
	var all map[string]*mcp.Tool
	w.until(fmt.Sprint(n, " tools"), func() bool { all = w.tools(c); return len(all) >= n })
	return all
}

// resources are those that are there once there are n.
func (w *world) resources(c *mcp.ClientSession, n int) (uris []string) {
	w.t.Helper()
	w.until(fmt.Sprint(n, " resources"), func() bool {
		uris = nil
		for r, err := range c.Resources(w.ctx, nil) {
			require.NoError(w.t, err)
			uris = append(uris, r.URI)
		}
		return len(uris) >= n
	})
	return uris
}

// beScript is the server. Some calls do something: "count" says how often each method
// was asked for, "flood" tells of changes 5,000 times, "exit" ends it, "silent" is never answered.
func beScript() {
	var s script
	if err := json.Unmarshal([]byte(os.Getenv("GATEWAY_TEST_SCRIPT")), &s); err != nil {
		panic(err)
	}
	if s["start"] == "exit" {
		os.Exit(3)
	}
	out := bufio.NewWriter(os.Stdout)
	asked := map[string]int{}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
				URI  string `json:"uri"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || len(m.ID) == 0 || m.Method == "" {
			continue
		}
		asked[m.Method]++
		result, ok := s[m.Method+" "+m.Params.Name+m.Params.URI]
		if !ok {
			result, ok = s[m.Method]
		}
		switch {
		case ok && strings.HasPrefix(result, "after "):
			wait, rest, _ := strings.Cut(strings.TrimPrefix(result, "after "), " ")
			d, _ := time.ParseDuration(wait)
			time.Sleep(d)
			result = rest
		case ok:
		case m.Method == "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"script","version":"1"}}`
		case m.Method == "tools/list":
			result = `{"tools":[]}`
		case m.Method == "prompts/list":
			result = `{"prompts":[]}`
		case m.Method == "resources/list":
			result = `{"resources":[]}`
		case m.Params.Name == "count":
			said, _ := json.Marshal(asked)
			result = `{"content":[{"type":"text","text":` + strconv.Quote(string(said)) + `}]}`
		case m.Params.Name == "flood":
			for range 5000 {
				_, _ = fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
			result = `{"content":[]}`
		case m.Params.Name == "exit":
			os.Exit(3)
		case m.Params.Name == "silent":
			continue
		default:
			result = `{"content":[{"type":"text","text":` + strconv.Quote("called "+m.Params.Name) + `}]}`
		}
		_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		_ = out.Flush()
	}
}
