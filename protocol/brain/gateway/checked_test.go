package gateway_test

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// A malformed tool costs itself, a malformed answer its call; the server goes on.
func TestMalformed(t *testing.T) {
	t.Parallel()
	answers := map[string]struct{ result, want string }{
		"number":     {`5`, "the result is a number, not an object"},
		"list":       {`[]`, "the result is a list, not an object"},
		"null":       {`null`, "the result is null, not an object"},
		"content":    {`{"content":5}`, "content is a number, not a list"},
		"block":      {`{"content":[{"type":"text","text":"x"},null]}`, "content 1: it is null, not an object"},
		"type":       {`{"content":[{"type":"hologram"}]}`, `content 0: its type "hologram" is not known`},
		"text":       {`{"content":[{"type":"text","text":5}]}`, "content 0: its text is no text"},
		"error":      {`{"content":[],"isError":"yes"}`, "isError is not true or false"},
		"base64":     {`{"content":[{"type":"image","mimeType":"image/png","data":"!!"}]}`, "content 0: its data is not base64"},
		"blob":       {`{"content":[{"type":"resource","resource":{"uri":"own://r","blob":"!!"}}]}`, "content 0: its blob is not base64"},
		"structured": {`{"content":[],"structuredContent":5}`, "structuredContent is a number, not an object"},
		"mime":       {`{"content":[{"type":"image","mimeType":5,"data":""}]}`, ""},
		"meta":       {`{"content":[],"_meta":5}`, "_meta is a number, not an object"},
	}
	real(t, gateway.Options{}, func(t *testing.T, w *world) {
		s := script{"prompts/list": `{"prompts":[{"name":5},null,{"name":"p"}]}`, "prompts/get p": `5`,
			"resources/list": `{"resources":[{"uri":5},{"uri":"own://r","name":"r"}]}`, "resources/read own://r": `{"contents":5}`}
		list := `{"tools":[5,null,{"name":5,"inputSchema":{"type":"object"}},{"inputSchema":{"type":"object"}},
			{"name":"hint","annotations":{"readOnlyHint":"yes"},"inputSchema":{"type":"object"}},
			{"name":"properties","inputSchema":{"type":"object","properties":5,"required":7}},
			{"name":"property","inputSchema":{"type":"object","properties":{"a":true,"b":5,"c":{"type":"string"}}}},
			{"name":"bare"},{"name":"nothing"},{"name":"output","inputSchema":{"type":"object"},"outputSchema":{"type":"string"}}`
		for name, a := range answers {
			s["tools/call "+name] = a.result
			list += `,{"name":"` + name + `","inputSchema":{"type":"object"}}`
		}
		lines := ""
		for _, c := range list + `],"nextCursor":5}` {
			if c != '\n' && c != '\t' {
				lines += string(c)
			}
		}
		s["tools/list"], s["tools/call nothing"] = lines, `{"content":null,"_meta":null}`
		w.executor("one", servers(scripted(t, "s", s)))
		w.ready(1)
		c := w.client(nil)
		tools := w.listed(c, len(answers)+5)
		w.resources(c, 1)
		require.Len(t, tools, len(answers)+5, sorted(tools))
		schema := func(name string) string {
			raw, err := json.Marshal(tools[name].InputSchema)
			require.NoError(t, err)
			return string(raw)
		}
		require.JSONEq(t, `{"type":"object"}`, schema("s__properties"))
		require.JSONEq(t, `{"type":"object"}`, schema("s__bare"))
		require.JSONEq(t, `{"type":"object","properties":{"a":{},"b":{},"c":{"type":"string"}}}`, schema("s__property"))
		require.Nil(t, tools["s__output"].OutputSchema)
		for name, a := range answers {
			r := w.call(c, "s__"+name, nil)
			require.True(t, r.IsError, name)
			require.Contains(t, text(r), "server s gave a malformed answer: "+a.want, name)
			require.NotRegexp(t, `Go |mcp\.|\[\]byte`, text(r))
		}
		require.False(t, w.call(c, "s__nothing", nil).IsError, "it has no content, as servers in Go say it")
		require.Equal(t, "called bare", text(w.call(c, "s__bare", nil)), "the server goes on")
		_, err := c.GetPrompt(w.ctx, &mcp.GetPromptParams{Name: "s__p"})
		require.ErrorContains(t, err, "server s gave a malformed answer: it is a number, not an object")
		_, err = c.ReadResource(w.ctx, &mcp.ReadResourceParams{URI: "own://r"})
		require.ErrorContains(t, err, "server s gave a malformed answer: ")
		require.NotContains(t, err.Error(), "mcp.")
	})
}
