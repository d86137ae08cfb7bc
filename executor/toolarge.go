package executor

import (
	"encoding/json"
	"io"
	"strings"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// keepTooLarge is how many bytes of a text that a brain does not take are sent all the
// same: its head and its tail.
const keepTooLarge = 2 << 10

// maxMutationsTooLarge is how many changed paths go with the notice that a result was
// too large.
const maxMutationsTooLarge = 20

// tooLarge is what is sent in place of a result that the brain cannot take (spec
// section 14.4): why, where the whole text is, and keep bytes of it.
func (e *Executor) tooLarge(r protocol.ToolResultParams, keep int) protocol.ToolResultParams {
	size := len(r.Structured)
	var texts []string
	for _, b := range r.Content {
		size += len(b.Text) + len(b.Data)
		if b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	text := strings.Join(texts, "\n")
	cause := protocol.Errorf(protocol.CodePayloadTooLarge, "the result of %d bytes is larger than the brain takes", size)
	where := spilledTo(r)
	if where == "" && len(text) > keep {
		where = e.spillLate(r, text)
	}
	if where != "" {
		cause.Message += "; the whole text is in " + where
	}
	said := cause.Message
	switch {
	case len(text) > keep && keep > 0:
		head, tail := ends(text, keep)
		said += "\n" + head + "\n[…]\n" + tail
	case keep > 0 && text != "":
		said += "\n" + text
	}
	small := protocol.ToolResultParams{
		SessionID: r.SessionID, ToolCallID: r.ToolCallID, Outcome: protocol.OutcomeFailed, IsError: true,
		Content:    []protocol.Content{{Type: protocol.ContentText, Text: said}},
		DurationMS: r.DurationMS, Error: toolError(cause),
	}
	if len(r.Mutations) <= maxMutationsTooLarge {
		small.Mutations = r.Mutations
	}
	return small
}

// spillLate keeps a text that was short enough to be sent, but not for this brain. It
// returns where; "" when the session has ended or there is no room.
func (e *Executor) spillLate(r protocol.ToolResultParams, text string) string {
	s, err := e.lookup(r.SessionID)
	if err != nil {
		return ""
	}
	c := capabilities.NewCall(capabilities.CallConfig{Session: s.caps, ID: r.ToolCallID})
	f, display, err := c.Spill()
	if err == nil {
		_, err = io.WriteString(f, text)
	}
	if closed := c.Close(); err == nil {
		err = closed
	}
	if err != nil {
		s.log.Warn("result could not be spilled", zap.String("call", r.ToolCallID), zap.Error(err))
		return ""
	}
	return display
}

// isTooLarge reports whether a result is itself such a notice, or another that has
// nothing in it to be left out.
func isTooLarge(r protocol.ToolResultParams) bool {
	return r.Error != nil && r.Structured == nil && len(r.Content) == 1 &&
		(r.Error.Code == protocol.CodePayloadTooLarge || r.Error.Reason == protocol.ReasonOutcomeUnknown || r.Error.Reason == protocol.ReasonExecutorRestarted)
}

func toolError(e *protocol.Error) *protocol.ToolError {
	return &protocol.ToolError{Code: e.Code, Reason: e.Reason(), Message: e.Message, Retryable: e.Data.Retryable}
}

// spilledTo finds the path that a spilled result names.
func spilledTo(r protocol.ToolResultParams) string {
	var s struct {
		OutputFile string `json:"output_file"` // of a tool that spills by itself
	}
	_ = json.Unmarshal(r.Structured, &s)
	if s.OutputFile != "" {
		return s.OutputFile
	}
	for _, b := range r.Content {
		if _, after, ok := strings.Cut(b.Text, spillMark); ok {
			path, _, _ := strings.Cut(after, spillMarkEnd)
			return path
		}
	}
	return ""
}
