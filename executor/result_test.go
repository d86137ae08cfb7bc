package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// says is a tool whose output is made for each call.
func says(name string, output func(in string) protocol.ToolOutput) capabilities.Capability {
	return capabilities.Func(name, "A tool of a test.", func(_ context.Context, _ *capabilities.Call, in anything) (protocol.ToolOutput, error) {
		return output(in.Text), nil
	})
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

func TestStructured(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var output any
		s := w.session(brain.Options{}, nil, says("tool", func(string) protocol.ToolOutput {
			return protocol.ToolOutput{Structured: output, Content: []protocol.Content{{Type: protocol.ContentText, Text: "content"}}}
		}))
		for _, c := range []struct {
			output any
			want   string // "": none; else the JSON, or what the error says
			failed bool
		}{
			{map[string]any{"n": 1}, `{"n":1}`, false},
			{json.RawMessage(" { \"n\" : 1 } "), `{"n":1}`, false},
			{struct{}{}, `{}`, false},
			{(*anything)(nil), "", false},
			{[]int{1}, "not an object", true},
			{"text", "not an object", true},
			{7, "not an object", true},
			{make(chan int), "cannot be sent", true},
			{json.RawMessage("{"), "cannot be sent", true},
			{explosive{}, "boom", true},
		} {
			output = c.output
			r, err := s.Call(w.ctx, "tool", nil)
			require.NoError(t, err)
			require.Equal(t, c.failed, r.Outcome == protocol.OutcomeFailed, c.want)
			require.Equal(t, "content", r.Content[0].Text)
			if c.failed {
				require.Contains(t, text(r), c.want)
				require.Empty(t, r.Structured)
			} else {
				require.Equal(t, c.want, string(r.Structured))
			}
		}
	})
}

// Text is cleaned on its way, and what the tool returned stays as it is.
func TestTextIsCleaned(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		kept := []protocol.Content{{Type: protocol.ContentText, Text: "a\x00b\xff\xfec"}}
		s := w.session(brain.Options{}, nil,
			says("dirty", func(string) protocol.ToolOutput { return protocol.ToolOutput{Content: kept} }),
			says("none", func(string) protocol.ToolOutput { return protocol.ToolOutput{} }),
			tool("fails", func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
				return protocol.ToolOutput{}, fmt.Errorf("bad \x00 byte \xff")
			}))
		r, err := s.Call(w.ctx, "dirty", nil)
		require.NoError(t, err)
		require.Equal(t, "a\u2400b\uFFFDc", text(r))
		require.Equal(t, "a\x00b\xff\xfec", kept[0].Text)
		r, err = s.Call(w.ctx, "fails", nil)
		require.NoError(t, err)
		require.Equal(t, "bad \u2400 byte \uFFFD", text(r))
		require.Equal(t, "bad \u2400 byte \uFFFD", r.Error.Message)
		r, err = s.Call(w.ctx, "none", nil)
		require.NoError(t, err)
		require.NotNil(t, r.Content)
	})
}

// Long text is cut to head and tail; the whole is in a file, the last line always in
// the result.
func TestSpill(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		const inline = 4 << 10
		line := "the last line: exit status 3\n"
		s := w.session(brain.Options{}, func(o *Options) { o.InlineResultBytes = inline }, says("long", func(in string) protocol.ToolOutput {
			var n int
			_, _ = fmt.Sscan(in, &n)
			return protocol.Text(strings.Repeat("é", (n-len(line))/2) + strings.Repeat("x", (n-len(line))%2) + line)
		}))
		root := w.opts.Workspace.Roots[0].Path
		sizes := []int{100, inline, inline + 1, inline + inline/8, 10 * inline, 300_000}
		for d := -4; d <= 40; d++ {
			sizes = append(sizes, inline+inline/8+d)
		}
		for _, n := range sizes {
			r, err := s.Call(w.ctx, "long", anything{Text: fmt.Sprint(n)})
			require.NoError(t, err)
			got := text(r)
			require.True(t, strings.HasSuffix(got, line), n)
			require.True(t, utf8.ValidString(got))
			require.LessOrEqual(t, len(got), inline+inline/8+300)
			if n <= inline+inline/8 {
				require.Len(t, got, n)
				continue
			}
			require.Contains(t, got, fmt.Sprintf("of %d are missing here", n))
			path := spilledTo(r)
			require.NotEmpty(t, path)
			whole, err := os.ReadFile(filepath.Join(root, path))
			require.NoError(t, err)
			require.Len(t, whole, n)
			head, tail, _ := strings.Cut(got, "\n[…")
			require.True(t, strings.HasPrefix(string(whole), head))
			_, tail, _ = strings.Cut(tail, spillMarkEnd)
			require.True(t, bytes.HasSuffix(whole, []byte(tail)))
			require.Contains(t, got, fmt.Sprintf("%d bytes of", n-len(head)-len(tail)))
		}
	})
}

// Where nothing can be spilled to, the ends survive all the same, and the result says
// that the rest is gone. Blocks that are no text stay.
func TestSpillIntoNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.session(brain.Options{}, func(o *Options) { o.Workspace.Roots[0].ReadOnly = true }, says("long", func(string) protocol.ToolOutput {
			return protocol.ToolOutput{Content: []protocol.Content{
				{Type: protocol.ContentText, Text: "begin " + strings.Repeat("x", 50_000)},
				{Type: protocol.ContentImage, Data: []byte{1, 2, 3}, MIMEType: "image/png"},
				{Type: protocol.ContentText, Text: strings.Repeat("y", 50_000) + " end"},
			}}
		}))
		r, err := s.Call(w.ctx, "long", nil)
		require.NoError(t, err)
		require.Len(t, r.Content, 2)
		require.True(t, strings.HasPrefix(r.Content[0].Text, "begin x"))
		require.True(t, strings.HasSuffix(r.Content[0].Text, "y end"))
		require.Contains(t, r.Content[0].Text, "could not be kept")
		require.Equal(t, []byte{1, 2, 3}, r.Content[1].Data)
	})
}

// A result over the brain's frame limit gives away what it can do without, before it
// is recorded, and others go on.
func TestResultOverTheFrameLimit(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		big := bytes.Repeat([]byte("x"), 100_000)
		stored := newStored()
		s := w.session(brain.Options{MaxControlFrameBytes: 64 << 10, Results: stored}, nil, hello(),
			says("structured", func(string) protocol.ToolOutput {
				return protocol.ToolOutput{Structured: map[string]string{"big": string(big)}, Content: []protocol.Content{{Type: protocol.ContentText, Text: "small"}}}
			}),
			says("image", func(string) protocol.ToolOutput {
				return protocol.ToolOutput{Content: []protocol.Content{{Type: protocol.ContentImage, Data: big}, {Type: protocol.ContentText, Text: "a picture"}}}
			}),
			says("mutations", func(string) protocol.ToolOutput {
				return protocol.ToolOutput{Mutations: make([]protocol.Mutation, 5000), Content: []protocol.Content{{Type: protocol.ContentText, Text: strings.Repeat("\x01", 60_000)}}}
			}),
			says("escaped", func(string) protocol.ToolOutput { return protocol.Text(strings.Repeat("\x01", 30_000) + "end") }))
		for name, want := range map[string]string{
			"structured": "too large to be sent", "image": "a picture", "hello": "hello",
		} {
			r, err := s.Call(w.ctx, name, nil)
			require.NoError(t, err)
			require.Equal(t, protocol.OutcomeSucceeded, r.Outcome, name)
			require.Contains(t, text(r), want)
		}
		r, err := s.Call(w.ctx, "escaped", nil)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeSucceeded, r.Outcome, "cut more, since it grows")
		require.True(t, strings.HasSuffix(text(r), "end"))
		require.Contains(t, text(r), spilledHere)

		r, err = s.Call(w.ctx, "mutations", nil)
		require.NoError(t, err)
		require.Equal(t, protocol.OutcomeFailed, r.Outcome)
		require.Equal(t, "payload_too_large", r.Error.Reason)
		require.Contains(t, text(r), "the whole text is in ")
		require.Equal(t, 1, stored.times(r.ToolCallID))
		_, err = s.Call(w.ctx, "hello", nil)
		require.NoError(t, err)
		synctest.Wait()
		require.Zero(t, w.Status().ResultsLost)
	})
}

func TestWireLen(t *testing.T) {
	for _, s := range []string{"", "plain", "\"\\\n\t\r", "\x01\x1f\x7f", "é€\u2028\u2029", "<&>", strings.Repeat("\x00", 100)} {
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		raw = bytes.NewBuffer(raw).Bytes()
		for _, c := range []string{"<", ">", "&"} { // not escaped on this wire
			raw = bytes.ReplaceAll(raw, []byte(fmt.Sprintf(`\u%04x`, c[0])), []byte(c))
		}
		require.GreaterOrEqual(t, wireLen(s), len(raw), s)
	}
}
