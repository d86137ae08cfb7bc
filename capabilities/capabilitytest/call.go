package capabilitytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// Call calls a tool and waits for its result. The error is the refusal before
// the acceptance, a *protocol.Error: not_found for an unknown tool, invalid_params
// for a bad input. Whatever goes wrong afterwards is in the result. input is
// marshaled, unless it is a json.RawMessage.
func Call(t testing.TB, s *Session, tool string, input any) (protocol.ToolResultParams, error) {
	t.Helper()
	return CallContext(s.Context(), t, s, tool, input)
}

// CallContext is Call with a context of its own, beside that of the session.
func CallContext(ctx context.Context, t testing.TB, s *Session, tool string, input any) (protocol.ToolResultParams, error) {
	t.Helper()
	raw, err := marshal(input)
	if err != nil {
		t.Fatalf("tool %s: marshal input: %v", tool, err)
	}
	result, err := s.call(ctx, tool, raw)
	if err != nil {
		return result, err
	}
	if err := checkResult(result); err != nil {
		t.Errorf("tool %s: result that must not cross the wire: %v", tool, err)
	}
	return result, nil
}

func (s *Session) call(ctx context.Context, name string, input json.RawMessage) (protocol.ToolResultParams, error) {
	tool, ok := s.Host.Registry.Tool(name)
	if !ok {
		return protocol.ToolResultParams{}, protocol.Errorf(protocol.CodeNotFound, "no tool %s", name)
	}
	run, err := tool.Prepare(input)
	if err != nil {
		return protocol.ToolResultParams{}, err
	}
	if s.Context().Err() != nil {
		return protocol.ToolResultParams{}, protocol.Errorf(protocol.CodeSessionNotActive, "session %s has ended", s.ID())
	}
	s.calls.Add(1)
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)()

	call := capabilities.NewCall(capabilities.CallConfig{
		Session: s.Session, Tool: tool, Input: input, Upload: s.upload, ID: fmt.Sprintf("call-%d", s.number.Add(1))})
	start := time.Now()
	out, err := run(ctx, call)
	result := resultOf(out, err)
	result.SessionID, result.ToolCallID, result.DurationMS = s.ID(), call.ID(), time.Since(start).Milliseconds()
	if out.Structured != nil {
		structured, err := json.Marshal(out.Structured)
		if err != nil {
			return result, fmt.Errorf("marshal structured: %w", err)
		}
		result.Structured = structured
	}
	return result, call.Close()
}

// resultOf says in a result how a handler returned.
func resultOf(out protocol.ToolOutput, err error) protocol.ToolResultParams {
	result := protocol.ToolResultParams{Outcome: protocol.OutcomeSucceeded, IsError: out.IsError,
		Content: out.Content, Artifacts: out.Artifacts, Mutations: out.Mutations}
	if err == nil {
		return result
	}
	var e *protocol.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled):
		e = protocol.Errorf(protocol.CodeCanceled, "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		e = protocol.Errorf(protocol.CodeTimeout, "%v", err)
	default:
		e = protocol.Errorf(protocol.CodeInternalError, "%v", err)
	}
	result.Outcome, result.IsError = protocol.OutcomeFailed, true
	if e.Code == protocol.CodeCanceled {
		result.Outcome = protocol.OutcomeCanceled
	}
	result.Error = &protocol.ToolError{Code: e.Code, Reason: e.Reason(), Message: e.Message, Retryable: e.Data.Retryable}
	result.Content = append(result.Content[:len(result.Content):len(result.Content)],
		protocol.Content{Type: protocol.ContentText, Text: e.Message})
	return result
}

// checkResult finds what a brain could not take.
func checkResult(r protocol.ToolResultParams) error {
	for i, c := range r.Content {
		switch {
		case c.Type == "":
			return fmt.Errorf("content[%d] has no type", i)
		case !utf8.ValidString(c.Text):
			return fmt.Errorf("content[%d] is not valid UTF-8", i)
		case strings.ContainsRune(c.Text, 0):
			return fmt.Errorf("content[%d] contains U+0000", i)
		}
	}
	if r.Structured != nil && r.Structured[0] != '{' {
		return fmt.Errorf("structured is not an object: %.20s", r.Structured)
	}
	return nil
}

// Do sends a request as the brain would and waits for its answer. params and
// result go through JSON. A method that nobody handles is method_not_found.
func Do[P, R any](ctx context.Context, s *Session, m protocol.Method[P, R], params P) (R, error) {
	var result R
	answer, err := s.request(ctx, m.Name, params)
	if err != nil {
		return result, err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return result, fmt.Errorf("marshal result of %s: %w", m.Name, err)
	}
	return protocol.DecodeResult[R](raw)
}

// Send sends a notification as the brain would and waits until it is handled. The
// error is the handler's, which a brain would never see.
func Send[P any](ctx context.Context, s *Session, n protocol.Notification[P], params P) error {
	_, err := s.request(ctx, n.Name, params)
	return err
}

func (s *Session) request(ctx context.Context, name string, params any) (any, error) {
	raw, err := marshal(params)
	if err != nil {
		return nil, fmt.Errorf("marshal params of %s: %w", name, err)
	}
	for _, m := range s.Host.Registry.Methods() {
		if m.Spec.Name != name {
			continue
		}
		p, err := m.Prepare(raw, nil)
		if err != nil {
			return nil, err
		}
		if m.Machine {
			return p.Run(ctx, s.Host.machine)
		}
		if p.SessionID != s.ID() || s.Context().Err() != nil {
			return nil, protocol.Errorf(protocol.CodeSessionNotActive, "session %s is not active", p.SessionID)
		}
		s.calls.Add(1)
		defer s.calls.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.Context(), cancel)()
		return p.Run(ctx, s.Session)
	}
	return nil, protocol.Errorf(protocol.CodeMethodNotFound, "no capability handles %s", name)
}

func marshal(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(v)
}
