package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/exec"
	"github.com/agent-executor/executor/capabilities/git"
)

// execTool is a tool of the user's as it is configured.
type execTool struct {
	Name        string   `json:"name"`
	Command     []string `json:"command"`
	Description string   `json:"description"`
	Timeout     string   `json:"timeout"`
}

// ExecTools reads the setting exec-tools: texts that are each a JSON object or a list of them.
func ExecTools(texts []string) ([]exec.Tool, error) {
	var tools []exec.Tool
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			text = "[" + text + "]"
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		var list []execTool
		if err := decoder.Decode(&list); err != nil {
			return nil, jsonError(err)
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("something follows the JSON")
		}
		for _, t := range list {
			tool := exec.Tool{Name: t.Name, Command: t.Command, Description: t.Description}
			if t.Timeout != "" {
				timeout, err := time.ParseDuration(t.Timeout)
				if err != nil || timeout <= 0 {
					return nil, fmt.Errorf("tool %q: timeout: %q: want a time like 30s or 5m", t.Name, t.Timeout)
				}
				tool.Timeout = timeout
			}
			tools = append(tools, tool)
		}
	}
	return tools, exec.CheckTools(tools)
}

// jsonError words what the decoder says for somebody who writes a configuration.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		where := ""
		if wrong.Field != "" {
			where = wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:] + ": "
		}
		want := map[string]string{"string": "a text", "slice": "a list", "struct": "an object"}[wrong.Type.Kind().String()]
		return fmt.Errorf("%swant %s, not a JSON %s", where, want, wrong.Value)
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		known := []string{"name", "command", "description", "timeout"}
		name = strings.Trim(name, `"`)
		if near := capabilities.Nearest(name, known); near != "" {
			return fmt.Errorf("unknown key %q; did you mean %q?", name, near)
		}
		return fmt.Errorf("unknown key %q; there are %s", name, strings.Join(known, ", "))
	}
	return fmt.Errorf(`not JSON: %s; want {"name": "test", "command": ["make", "test"]}`, text)
}

func refuseExecTools(s *Settings) error {
	_, err := ExecTools(s.ExecTools)
	return err
}

func refuseGitSubcommands(s *Settings) error {
	for _, name := range splitCommas(s.GitSubcommands) {
		if !slices.Contains(git.Extra(), name) {
			return fmt.Errorf("%q cannot be allowed; there are %s", name, strings.Join(git.Extra(), ", "))
		}
	}
	return nil
}
