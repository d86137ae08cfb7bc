package config

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// The same servers in all spellings; the type follows from what there is.
func TestMCPServers(t *testing.T) {
	want := []protocol.MCPServer{
		{ServerKey: "files", Transport: protocol.MCPTransport{Type: "stdio", Command: "npx", Args: []string{"-y", "server"}, Env: map[string]string{"A": "b: c"}, TimeoutMS: 5000}},
		{ServerKey: "web", ConnectionOrigin: "environment", Transport: protocol.MCPTransport{Type: "http", URL: "http://127.0.0.1:8000/mcp"}},
	}
	const first, second = `{"server_key":"files","transport":{"command":"npx","args":["-y","server"],"env":{"A":"b: c"},"timeout_ms":5000}}`,
		`{"server_key":"web","connection_origin":"environment","transport":{"type":"http","url":"http://127.0.0.1:8000/mcp"}}`
	for name, c := range map[string]struct {
		args, environ []string
		file          string
	}{
		"file": {file: "mcp_servers:\n  - server_key: files\n    transport:\n      command: npx\n      args: [-y, server]\n      env: {A: 'b: c'}\n      timeout_ms: 5000\n" +
			"  - {server_key: web, connection_origin: environment, transport: {type: http, url: 'http://127.0.0.1:8000/mcp'}}\n"},
		"flags":    {args: []string{"--mcp-servers", first, "--mcp-servers", second}},
		"one flag": {args: []string{"--mcp-servers", "[" + first + "," + second + "]"}},
		"variable": {environ: []string{"EXECUTOR_MCP_SERVERS=" + first + "\n" + second}},
	} {
		s, _, err := resolveWith(t, c.args, c.environ, c.file)
		require.NoError(t, err, name)
		got, err := MCPServers(s.MCPServers)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	s, _, err := resolveWith(t, nil, []string{`EXECUTOR_MCP_SERVERS={"server_key":"a","transport":{"command":"x","secret_env":{"K":"geheim-99"}}}`}, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"geheim-99"}, MCPSecrets(&s))
}

func TestMCPServersRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		file string
		says string
	}{
		{file: "name: x\nmcp_servers:\n  - {server_key: a, transport: {command: x}}\n  - {server_key: b, transport: {comand: x}}\n",
			says: `config.yaml:4: mcp_servers: server 2: transport: unknown key "comand"; did you mean "command"?`},
		{file: "mcp_servers: {key: a, transport: {command: x}}\n", says: `server 1: unknown key "key"; did you mean "server_key"?`},
		{file: "mcp_servers: {server_key: a}\n", says: "server 1: transport: it is missing; want a mapping"},
		{file: "mcp_servers: {server_key: a, transport: npx}\n", says: "server 1: transport: want a mapping with command"},
		{file: "mcp_servers: {server_key: a, transport: {command: x, args: -y}}\n", says: "transport.args: want a list of texts"},
		{file: "mcp_servers: {server_key: a, transport: {command: x, env: {A: 1}}}\n", says: "transport.env: want a mapping of texts; write numbers"},
		{file: "mcp_servers: {server_key: a, transport: {args: [x]}}\n", says: "server 1: transport.command: it is missing; name the program"},
		{file: "mcp_servers: {server_key: a, transport: {type: sse, url: 'http://x/'}}\n", says: "transport.type: sse: want stdio or http"},
		{file: "mcp_servers: {server_key: a, connection_origin: service, transport: {command: x}}\n", says: "connection_origin: service: the servers of this machine"},
		{file: "mcp_servers:\n- {server_key: a, transport: {command: x}}\n- {server_key: a, transport: {command: x}}\n", says: `config.yaml:3: mcp_servers: server 2: server_key: "a" is there twice`},
		{file: "mcp_servers: [npx]\n", says: "mcp_servers: want a value or a list of values"},
		{args: []string{"--mcp-servers", "npx"}, says: "--mcp-servers: not JSON: "},
		{args: []string{"--mcp-servers", "[1]"}, says: "server 1: want a mapping with server_key and transport"},
		{args: []string{"--mcp-servers", `{"server_key":"a","transport":{"command":"x","secret_env":{"K":"geheim-99"}}}`},
			says: "--mcp-servers: a secret in a flag is seen by everybody"},
		{file: "mcp_server: {server_key: a, transport: {command: x}}\n", says: `unknown key "mcp_server"; did you mean "mcp_servers"?`},
	} {
		_, _, err := resolveWith(t, c.args, nil, c.file)
		if assert.ErrorContains(t, err, c.says) {
			assert.NotContains(t, err.Error(), "geheim-99")
		}
	}
}

// Secrets are in no file that others read, and are not shown.
func TestMCPSecretsInTheFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
	isolate(t)
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte("mcp_servers: {server_key: files, transport: {command: x, env: {A: plain-99, MY_TOKEN: geheim-98}, secret_env: {K: geheim-99}}}\n"), 0o600))
	var out bytes.Buffer
	r := resolveArgs(t, "--config", path)
	require.NoError(t, r.Err())
	require.NoError(t, Show(r, &out, false))
	assert.Contains(t, out.String(), "server_key: files")
	assert.Contains(t, out.String(), "plain-99")
	assert.NotContains(t, out.String(), "geheim")
	require.NoError(t, os.Chmod(path, 0o644))
	assert.ErrorContains(t, resolveArgs(t, "--config", path).Err(), "config.yaml:1: mcp_servers: this has secrets in it, and the file has mode 0644, so that others can read it; run: chmod 600 "+path)
	require.NoError(t, os.WriteFile(path, []byte("mcp_servers: {server_key: files, transport: {command: x}}\n"), 0o644))
	assert.NoError(t, resolveArgs(t, "--config", path).Err())
}
