package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// Members of a result's _meta.
const (
	metaOutcome  = "executor/outcome"     // succeeded, failed or canceled
	metaReason   = "executor/reason"      // of a call that has failed
	metaDuration = "executor/duration_ms" // how long it ran
)

// handler has the executor call the tool.
func (c *client) handler(t *tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c.running.Add(1)
		defer c.running.Add(-1)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		input := req.Params.Arguments
		if string(input) == "null" {
			input = nil
		}
		var follow func(protocol.ToolProgressParams)
		if token := req.Params.GetProgressToken(); token != nil {
			p := newProgress(ctx, req.Session, token)
			defer p.end()
			follow = p.take
		}
		r, err := c.hand(t.x).call(ctx, t.name, input, follow)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err() // nobody waits any more
			}
			return refusal(t, err), nil
		}
		return result(r), nil
	}
}

// refusal is the result of a call without one, for a model to read.
func refusal(t *tool, err error) *mcp.CallToolResult {
	text, reason := fmt.Sprintf("%s: %v", t.plain, err), protocol.CodeInternalError.String()
	var e *protocol.Error
	switch {
	case errors.Is(err, errAway):
		reason = protocol.CodeResourceUnavailable.String()
		text = fmt.Sprintf("%s: executor %s is away and did not come back in time; if the call had begun there, what became of it is not known", t.plain, t.x.ID())
	case errors.Is(err, errFull), errors.Is(err, errSlow):
		reason = protocol.CodeExecutorBusy.String()
	case errors.Is(err, brain.ErrForgotten):
		reason = protocol.CodeResourceUnavailable.String()
		text = fmt.Sprintf("%s: executor %s is gone; list the tools again", t.plain, t.x.ID())
	case errors.As(err, &e):
		reason = e.Reason()
		text = fmt.Sprintf("%s: %s: %s", t.plain, reason, e.Message)
		if e.Data.Detail != "" {
			text += " (" + e.Data.Detail + ")"
		}
		if e.Code == protocol.CodeSessionNotActive {
			text += "; what became of the call is not known, and shells and processes of the session are gone"
		}
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}, Meta: mcp.Meta{metaReason: reason}}
}

// result is what a client gets of a result.
func result(r protocol.ToolResultParams) *mcp.CallToolResult {
	out := &mcp.CallToolResult{
		IsError: r.IsError || r.Outcome != protocol.OutcomeSucceeded,
		Content: make([]mcp.Content, 0, len(r.Content)),
		Meta:    mcp.Meta{metaOutcome: r.Outcome, metaDuration: r.DurationMS},
	}
	if len(r.Structured) > 0 && string(r.Structured) != "null" {
		out.StructuredContent = r.Structured
	}
	said := false
	named := map[string]bool{}
	for _, block := range r.Content {
		if block.ArtifactID != "" {
			named[block.ArtifactID] = true
		}
		if r.Error != nil && strings.Contains(block.Text, r.Error.Message) {
			said = true
		}
		out.Content = append(out.Content, content(block))
	}
	for _, a := range r.Artifacts {
		if !named[a.ArtifactID] {
			out.Content = append(out.Content, artifact(a.ArtifactID, a.Name, a.MIMEType, a.SizeBytes))
		}
	}
	if r.Error != nil {
		out.Meta[metaReason] = r.Error.Reason
		if !said {
			text := fmt.Sprintf("%s: %s", r.Error.Reason, r.Error.Message)
			out.Content = append(out.Content, &mcp.TextContent{Text: text})
		}
	}
	if out.IsError && len(out.Content) == 0 {
		out.Content = append(out.Content, &mcp.TextContent{Text: "the call has " + r.Outcome + " and says nothing"})
	}
	return out
}

// content is one block of a result.
func content(b protocol.Content) mcp.Content {
	switch b.Type {
	case protocol.ContentText:
		return &mcp.TextContent{Text: b.Text}
	case protocol.ContentImage:
		if len(b.Data) > 0 {
			return &mcp.ImageContent{Data: b.Data, MIMEType: b.MIMEType}
		}
	case protocol.ContentResource:
		if b.URL != "" && (b.Text != "" || len(b.Data) > 0) {
			return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: b.URL, MIMEType: b.MIMEType, Text: b.Text, Blob: b.Data}}
		}
	case protocol.ContentArtifact:
		return artifact(b.ArtifactID, b.Name, b.MIMEType, b.SizeBytes)
	}
	if b.URL != "" {
		link := &mcp.ResourceLink{URI: b.URL, Name: b.Name, MIMEType: b.MIMEType}
		if link.Name == "" {
			link.Name = b.URL
		}
		if b.SizeBytes > 0 {
			link.Size = &b.SizeBytes
		}
		return link
	}
	raw, _ := json.Marshal(b) // of a kind that is not known here
	return &mcp.TextContent{Text: string(raw)}
}

// artifact says that there is a file at the brain, which clients cannot read from here.
func artifact(id, name, mime string, size int64) mcp.Content {
	if name == "" {
		name = id
	}
	return &mcp.TextContent{Text: fmt.Sprintf("[file %q was sent to the brain as artifact %s: %s, %d bytes]", name, id, mime, size)}
}
