//go:build unix

package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

func sum256(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// The id is found wherever it stands and however the text comes.
func TestEnvelope(t *testing.T) {
	for text, want := range map[string]envelope{
		`{"jsonrpc":"2.0","id":7,"result":{"id":8,"method":"x","a":[{"id":1}]}}`:   {id: []byte("7"), version: true, answer: true},
		`{"result":{"id":"no \" } , \\"},"jsonrpc":"2.0", "id" : "a,}\"b" }`:       {id: []byte(`"a,}\"b"`), version: true, answer: true},
		` {"method":"m\\","params":["id",{"id":2}],"jsonrpc":"2.0"} `:              {method: true, version: true},
		`{"jsonrpc":"2.0","method":"m","id":-1.5}`:                                 {id: []byte("-1.5"), version: true, method: true},
		`{"jsonrpc":"2.0","\u0069d":"x","error":{}}`:                               {id: []byte(`"x"`), version: true, answer: true},
		`{"jsonrpc":"2.0","id":null,"error":{}}`:                                   {version: true, answer: true},
		`{"jsonrpc":"2.0","id":{"a":1},"error":{}}`:                                {version: true, answer: true},
		`[{"jsonrpc":"2.0","id":1}]`:                                               {},
		`{"level":30,"msg":"\"id\":1"}`:                                            {},
		`{"` + strings.Repeat("k", 100) + `":1,"id":3,"result":0,"jsonrpc":"2.0"}`: {id: []byte("3"), version: true, answer: true},
		`{"id":"` + strings.Repeat("k", 2000) + `","result":0,"jsonrpc":"2.0"}`:    {version: true, answer: true},
		`{"id":1`: {},
		`}}}]{"`:  {},
		``:        {},
	} {
		for size := 1; size <= len(text)+1; size += 1 + len(text)/7 {
			var e envelope
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				e.write([]byte(rest[:n]))
				rest = rest[n:]
			}
			assert.Equal(t, want, envelope{id: e.id, method: e.method, answer: e.answer, version: e.version}, "%s in pieces of %d", text, size)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`), 3)
	f.Add([]byte(`{"a":"\\\"","id":"x"}`), 1)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		var e envelope
		for rest := text; len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			e.write(rest[:n])
			rest = rest[n:]
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(text, &m) != nil || len(m) == 0 {
			return
		}
		for name := range m {
			if len(name) > 10 {
				return
			}
		}
		_, method := m["method"]
		_, version := m["jsonrpc"]
		require.Equal(t, method, e.method)
		require.Equal(t, version, e.version)
		if id := m["id"]; isID(id) && len(id) < maxValue && strings.Count(string(text), "id") == 1 {
			require.Equal(t, string(id), string(e.id))
		}
	})
}

// Lines are cut right however they come.
func TestLines(t *testing.T) {
	text := "a\n\n bb \r\n" + strings.Repeat("c", 30) + "\nd"
	for size := 1; size < 40; size++ {
		var got []string
		l := lines{limit: 20, take: func(m *message) {
			if m.tooLarge() {
				got = append(got, fmt.Sprint("too large: ", m.size))
				return
			}
			got = append(got, string(m.text))
		}}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			l.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		l.end()
		l.end()
		require.Equal(t, []string{"a", "bb", "too large: 30", "d"}, got, "in pieces of %d", size)
	}
}

// The end is kept, without secrets, also of one that is cut in two.
func TestTail(t *testing.T) {
	hide := secretsOf(map[string]string{"A": "secret-value", "B": "secret", "C": "", "D": "first-line\nx\nlast-line-here"})
	x := tail{hide: hide}
	x.write([]byte("begin secret-value and secret\nlast-line-here\n"))
	text, size := x.end()
	require.Equal(t, "begin ************ and ******\n**************", text)
	require.EqualValues(t, 45, size)
	for n := range 30 {
		x := tail{hide: hide}
		for range 500 {
			x.write([]byte("secret-"))
			x.write([]byte("value, "))
		}
		x.write([]byte(strings.Repeat(".", n)))
		text, _ := x.end()
		require.NotContains(t, text, "value")
		require.NotContains(t, text, "ret")
		require.LessOrEqual(t, len(text), keptStderr)
		require.Greater(t, len(text), keptStderr-100)
	}
	x = tail{}
	x.write([]byte(strings.Repeat("a", 1<<20)))
	x.write([]byte("end\xff"))
	text, size = x.end()
	require.True(t, strings.HasSuffix(text, "aaend\uFFFD"))
	require.EqualValues(t, 1<<20+4, size)
	require.LessOrEqual(t, len(x.text), 2*keptStderr)
}

// A server is started again a few times, later each time, and again when that is long ago.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{}
		o.defaults()
		s := &server{t: &table{options: &o}}
		for range 2 {
			for _, want := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
				wait, again := s.crashed()
				require.True(t, again)
				require.Equal(t, want, wait)
			}
			_, again := s.crashed()
			require.False(t, again)
			time.Sleep(o.RestartWindow)
		}
		o.MaxRestarts = 100
		for range 50 {
			wait, again := s.crashed()
			require.True(t, again)
			require.LessOrEqual(t, wait, maxRestartDelay)
		}
		require.Equal(t, "; not started again after 100 restarts in 10 minutes", s.tooOften())
		require.Len(t, clipTo(strings.Repeat("\xff", 300), maxReason), len("…"))
	})
}

func TestCheckServers(t *testing.T) {
	good := protocol.MCPServer{ServerKey: "a", Transport: protocol.MCPTransport{Type: "stdio", Command: "x"}}
	web := func(url string) protocol.MCPServer {
		return protocol.MCPServer{ServerKey: "w", Transport: protocol.MCPTransport{Type: "http", URL: url}}
	}
	with := func(f func(*protocol.MCPServer)) protocol.MCPServer {
		s := good
		f(&s)
		return s
	}
	require.NoError(t, CheckServers([]protocol.MCPServer{good, web("https://host:8443/mcp?x=1")}))
	for want, list := range map[string][]protocol.MCPServer{
		"server 2: server_key: a is there twice":            {good, good},
		"server 1: connection_origin: service: ":            {with(func(s *protocol.MCPServer) { s.ConnectionOrigin = "service" })},
		"transport.type: it is missing; want stdio or http": {with(func(s *protocol.MCPServer) { s.Transport.Type = "" })},
		"transport.timeout_ms: -1: want 0 or more":          {with(func(s *protocol.MCPServer) { s.Transport.TimeoutMS = -1 })},
		"transport.command: it contains a NUL":              {with(func(s *protocol.MCPServer) { s.Transport.Command = "a\x00" })},
		"transport.args: it contains a NUL":                 {with(func(s *protocol.MCPServer) { s.Transport.Args = []string{"a\x00"} })},
		"transport.url: a server of type stdio has none":    {with(func(s *protocol.MCPServer) { s.Transport.URL = "http://x" })},
		"transport.secret_env: A=B cannot be":               {with(func(s *protocol.MCPServer) { s.Transport.SecretEnv = map[string]string{"A=B": ""} })},
		"server_key: it has 200 bytes":                      {with(func(s *protocol.MCPServer) { s.ServerKey = strings.Repeat("k", 200) })},
		"transport.url: want one like":                      {web("ftp://host")},
		"transport.url: it is no URL":                       {web("http://user:secret@host:x/")},
		"transport.args: a server of type http has none":    {{ServerKey: "w", Transport: protocol.MCPTransport{Type: "http", URL: "http://x", Args: []string{"a"}}}},
	} {
		err := CheckServers(list)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret@")
	}
}
