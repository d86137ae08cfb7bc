package capabilitytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/goleak"
)

// Run holds the contract that every capability passes. newCap makes a fresh one
// each time. Run counts goroutines, so it must not run beside parallel tests.
//
//   - Install registers and starts no goroutine; the names are good ones.
//   - What is advertised marshals; a method's gate is the capability's own.
//   - Every tool has a description and a closed input schema, refuses an unknown
//     member, naming the nearest one, and refuses a member of a wrong type.
//   - Methods refuse params that are not theirs.
//   - Sessions start and end without a trace, two at once do not disturb each
//     other, and a session that has ended sends nothing.
//   - A call whose context is done returns. For this, every tool is called with
//     made-up input, an empty workspace and a context that is done already.
//   - Close may be called twice and leaves no goroutine.
func Run(t *testing.T, newCap func() capabilities.Capability) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(newCap, func() *capabilities.Workspace { return newWorkspace(t) }); err != nil {
				t.Error(err)
			}
		})
	}
}

type check func(newCap func() capabilities.Capability, workspace func() *capabilities.Workspace) error

var contract = []struct {
	name  string
	check check
}{
	{"install", checkInstall},
	{"advertised", checkAdvertised},
	{"tools", checkTools},
	{"methods", checkMethods},
	{"sessions", checkSessions},
	{"canceled", checkCanceled},
	{"close", checkClose},
}

var plainName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// install gives a host without a test; the caller closes its registry.
func install(c capabilities.Capability) (*Host, error) {
	h := &Host{Registry: capabilities.NewRegistry(nil), Peer: &Peer{}}
	if err := h.Registry.Install(c); err != nil {
		return nil, err
	}
	h.machine = capabilities.NewSession(context.Background(), capabilities.SessionConfig{Peer: h.Peer})
	return h, nil
}

func checkInstall(newCap func() capabilities.Capability, _ func() *capabilities.Workspace) error {
	before := goleak.IgnoreCurrent()
	c := newCap()
	if !plainName.MatchString(c.Name()) {
		return fmt.Errorf("name %q does not match %s", c.Name(), plainName)
	}
	h, err := install(c)
	if err != nil {
		return err
	}
	leak := goleak.Find(before)
	if err := h.Registry.Close(); err != nil {
		return err
	}
	if leak != nil {
		return fmt.Errorf("a goroutine was started before the first session: %w", leak)
	}
	return nil
}

func checkAdvertised(newCap func() capabilities.Capability, _ func() *capabilities.Workspace) error {
	c := newCap()
	h, err := install(c)
	if err != nil {
		return err
	}
	defer h.Registry.Close()
	if _, err := json.Marshal(h.Registry.Capabilities()); err != nil {
		return fmt.Errorf("marshal capabilities: %w", err)
	}
	for _, m := range h.Registry.Methods() {
		gate, _, _ := strings.Cut(m.Spec.Capability, ".")
		if gate != "" && gate != c.Name() {
			return fmt.Errorf("method %s needs capability %s, which %s does not advertise", m.Spec.Name, gate, c.Name())
		}
	}
	return nil
}

func checkTools(newCap func() capabilities.Capability, _ func() *capabilities.Workspace) error {
	h, err := install(newCap())
	if err != nil {
		return err
	}
	defer h.Registry.Close()
	var errs []error
	for _, name := range h.Registry.ToolNames() {
		tool, _ := h.Registry.Tool(name)
		if !plainName.MatchString(name) {
			errs = append(errs, fmt.Errorf("tool name %q does not match %s", name, plainName))
		}
		if err := checkTool(tool); err != nil {
			errs = append(errs, fmt.Errorf("tool %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func checkTool(tool *capabilities.RegisteredTool) error {
	if tool.Info().Description == "" {
		return errors.New("no description")
	}
	schema, err := readSchema(tool.Info().InputSchema)
	if err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	if raw := tool.Info().OutputSchema; raw != nil {
		if _, err := readSchema(raw); err != nil {
			return fmt.Errorf("output schema: %w", err)
		}
	}
	if err := checkUnknown(tool, schema); err != nil {
		return err
	}
	return checkWrongTypes(tool, schema)
}

func readSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	if s.Schema != "" && s.Schema != "https://json-schema.org/draft/2020-12/schema" {
		return nil, fmt.Errorf("$schema is %s, not 2020-12", s.Schema)
	}
	if s.Type != "object" {
		return nil, errors.New("type is not object")
	}
	if _, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
		return nil, err
	}
	return &s, nil
}

// checkUnknown misspells each member in turn.
func checkUnknown(tool *capabilities.RegisteredTool, schema *jsonschema.Schema) error {
	if err := refused(tool, map[string]any{"zzqxzzqx": 1}, "zzqxzzqx"); err != nil {
		return fmt.Errorf("an unknown member: %w", err)
	}
	for name := range schema.Properties {
		wrong := name + name[len(name)-1:]
		if schema.Properties[wrong] != nil || len(name) < 3 {
			continue
		}
		if err := refused(tool, map[string]any{wrong: 1}, fmt.Sprintf("did you mean %q", name)); err != nil {
			return fmt.Errorf("%s instead of %s: %w", wrong, name, err)
		}
	}
	return nil
}

// checkWrongTypes gives each member in turn a value of another type.
func checkWrongTypes(tool *capabilities.RegisteredTool, schema *jsonschema.Schema) error {
	for name, property := range schema.Properties {
		if property.Type == "" {
			continue
		}
		input := sampleObject(schema)
		if input[name] = any("text"); property.Type == "string" {
			input[name] = 1
		}
		if err := refused(tool, input, name+": want "); err != nil {
			return fmt.Errorf("%s of a wrong type: %w", name, err)
		}
	}
	return nil
}

// refused returns an error unless the tool refuses the input in these words.
func refused(tool *capabilities.RegisteredTool, input map[string]any, words string) error {
	raw, err := json.Marshal(input)
	if err != nil {
		return err
	}
	_, err = tool.Prepare(raw)
	if err == nil {
		return errors.New("was not refused")
	}
	if !errors.Is(err, protocol.ErrInvalidParams) || !strings.Contains(err.Error(), words) {
		return fmt.Errorf("was refused with %q, which does not say %q", err, words)
	}
	return nil
}

func checkMethods(newCap func() capabilities.Capability, _ func() *capabilities.Workspace) error {
	h, err := install(newCap())
	if err != nil {
		return err
	}
	defer h.Registry.Close()
	for _, m := range h.Registry.Methods() {
		for _, params := range []string{`[]`, `"x"`, `{`, `{"session_id":7}`, `{}`} {
			_, err := m.Prepare(json.RawMessage(params), nil)
			if err == nil && m.Machine {
				continue // may take any object
			}
			if !errors.Is(err, protocol.ErrInvalidParams) {
				return fmt.Errorf("method %s: params %s: want invalid_params, got %v", m.Spec.Name, params, err)
			}
		}
	}
	return nil
}

func checkSessions(newCap func() capabilities.Capability, workspace func() *capabilities.Workspace) error {
	before := goleak.IgnoreCurrent()
	h, err := install(newCap())
	if err != nil {
		return err
	}
	// Whatever goes wrong from here on, nothing is closed: a call that does not
	// return would hold that up and hide its own error.
	first, err := h.start(options("first", workspace()))
	if err != nil {
		return fmt.Errorf("start a session: %w", err)
	}
	second, err := h.start(options("second", workspace()))
	if err != nil {
		return fmt.Errorf("start a second session beside the first: %w", err)
	}
	first.End()
	sent := h.Peer.count("first")
	if err := callAll(second); err != nil {
		return fmt.Errorf("in the second session, after the end of the first: %w", err)
	}
	second.End()
	if now := h.Peer.count("first"); now != sent {
		return fmt.Errorf("%d notifications of a session that had ended", now-sent)
	}
	third, err := h.start(options("first", workspace()))
	if err != nil {
		return fmt.Errorf("start the first session again: %w", err)
	}
	third.End()
	if err := h.Registry.Close(); err != nil {
		return err
	}
	if err := goleak.Find(before); err != nil {
		return fmt.Errorf("a goroutine outlived its session: %w", err)
	}
	return nil
}

func options(id string, w *capabilities.Workspace) Options {
	return Options{Assign: protocol.SessionAssignParams{SessionID: id, WorkID: "work"}, Workspace: w}
}

// count counts the notifications of one session.
func (p *Peer) count(session string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, x := range p.notified {
		var of struct {
			SessionID string `json:"session_id"`
		}
		if json.Unmarshal(x.params, &of) == nil && of.SessionID == session {
			n++
		}
	}
	return n
}

func checkCanceled(newCap func() capabilities.Capability, workspace func() *capabilities.Workspace) error {
	h, err := install(newCap())
	if err != nil {
		return err
	}
	s, err := h.start(options("s", workspace()))
	if err != nil {
		return fmt.Errorf("start a session: %w", err)
	}
	if err := callAll(s); err != nil {
		return err // without closing anything, as in checkSessions
	}
	s.End()
	return h.Registry.Close()
}

// callAll calls every tool with made-up input and a context that is done.
func callAll(s *Session) error {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for _, name := range s.Host.Registry.ToolNames() {
		tool, _ := s.Host.Registry.Tool(name)
		schema, err := readSchema(tool.Info().InputSchema)
		if err != nil {
			return fmt.Errorf("tool %s: %w", name, err)
		}
		input, err := json.Marshal(sampleObject(schema))
		if err != nil {
			return err
		}
		returned := make(chan error, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					returned <- fmt.Errorf("panic: %v", p)
				}
			}()
			result, err := s.call(ctx, name, input)
			if errors.Is(err, protocol.ErrInvalidParams) {
				err = nil // a member means more than its type; nothing to see here
			}
			returned <- errors.Join(err, checkResult(result))
		}()
		select {
		case err := <-returned:
			if err != nil {
				return fmt.Errorf("tool %s, called with %s: %w", name, input, err)
			}
		case <-time.After(cancelLimit):
			return fmt.Errorf("tool %s, called with %s: did not return though its context is done", name, input)
		}
	}
	return nil
}

// cancelLimit is how long a call whose context is done may take.
var cancelLimit = 5 * time.Second

func checkClose(newCap func() capabilities.Capability, _ func() *capabilities.Workspace) error {
	before := goleak.IgnoreCurrent()
	c := newCap()
	h, err := install(c)
	if err != nil {
		return err
	}
	if err := h.Registry.Close(); err != nil {
		return err
	}
	if closer, ok := c.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			return fmt.Errorf("close twice: %w", err)
		}
	}
	if err := goleak.Find(before); err != nil {
		return fmt.Errorf("a goroutine outlived Close: %w", err)
	}
	return nil
}
