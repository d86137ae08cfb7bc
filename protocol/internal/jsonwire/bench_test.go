package jsonwire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// messages are of the sizes that are sent most, and of those that cost most.
var messages = []struct {
	name string
	v    any // a pointer
	make func() any
}{
	{"small", &protocol.ToolCallParams{
		SessionID: "ses_01jd8q", ToolCallID: "call_7", Tool: "bash", Input: json.RawMessage(`{"command":"ls -la"}`), DeadlineMS: 30000,
	}, func() any { return new(protocol.ToolCallParams) }},
	{"members", &protocol.ProcessReadResult{
		ProcessID: "proc_1", Stream: "stdout", Data: []byte("hello\n"), FromCursor: 1 << 20, NextCursor: 1<<20 + 6, State: "running",
	}, func() any { return new(protocol.ProcessReadResult) }},
	{"time", &protocol.ProcessStatusParams{
		SessionID: "ses_01jd8q", ProcessID: "proc_1", State: "exited", ExitCode: new(int), EndedAt: protocol.Now(), ObservedAt: protocol.Now(),
	}, func() any { return new(protocol.ProcessStatusParams) }},
	{"nested", &protocol.SessionAssignParams{
		SessionID: "ses_01jd8q", WorkID: "work_1", Lease: protocol.Lease{Token: "t", FencingToken: 12},
		MCPServers: []protocol.MCPServer{{ServerKey: "k", Transport: protocol.MCPTransport{
			Type: "stdio", Command: "npx", Args: []string{"-y", "server"}, Env: map[string]string{"PATH": "/bin", "HOME": "/root"},
		}}},
		Metadata: map[string]string{"a": "1", "b": "2"},
	}, func() any { return new(protocol.SessionAssignParams) }},
	{"text64K", toolResult(strings.Repeat("The quick brown fox jumps over a lazy dog. ", 1525)), func() any { return new(protocol.ToolResultParams) }},
	{"lines64K", toolResult(strings.Repeat("\tif err != nil { return \"x\", err }\n", 1872)), func() any { return new(protocol.ToolResultParams) }},
	{"german64K", toolResult(strings.Repeat("Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich. ", 1050)), func() any { return new(protocol.ToolResultParams) }},
	{"base64-64K", &protocol.ProcessOutputParams{SessionID: "s", ProcessID: "p", Stream: "stdout", Data: bytes.Repeat([]byte{1, 2, 200}, 16384)},
		func() any { return new(protocol.ProcessOutputParams) }},
	{"raw64K", &protocol.ToolCallParams{SessionID: "s", Input: json.RawMessage(`{"content":"` + strings.Repeat("The quick brown fox. ", 3120) + `"}`)},
		func() any { return new(protocol.ToolCallParams) }},
}

func toolResult(text string) any {
	return &protocol.ToolResultParams{SessionID: "ses_01jd8q", ToolCallID: "call_7", Outcome: "succeeded", Content: protocol.Text(text).Content}
}

func BenchmarkAppend(b *testing.B) {
	for _, m := range messages {
		raw, _ := jsonwire.Append(nil, m.v)
		b.Run(m.name+"/jsonwire", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			buf := make([]byte, 0, 2*len(raw))
			for b.Loop() {
				if _, err := jsonwire.Append(buf, m.v); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(m.name+"/encoding", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			var buf bytes.Buffer
			e := json.NewEncoder(&buf)
			e.SetEscapeHTML(false)
			for b.Loop() {
				buf.Reset()
				if err := e.Encode(m.v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	for _, m := range messages {
		raw, _ := jsonwire.Append(nil, m.v)
		b.Run(m.name+"/valid", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := jsonwire.Unmarshal(raw, m.make(), true); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(m.name+"/checking", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := jsonwire.Unmarshal(raw, m.make(), false); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(m.name+"/encoding", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := json.Unmarshal(raw, m.make()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
