package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/exec"
	"github.com/agent-executor/executor/executor/policy"
)

// gatedNames are the tools and methods of this program's capabilities, whether they are served or not.
func gatedNames() []string {
	return strings.Fields("bash copy delete diff edit git glob grep list_files mkdir move multi_edit read run_shell set_executable " +
		"shell_task_kill shell_task_list shell_task_output stat write " +
		"process.start process.read process.write process.interrupt process.terminate process.list process.resize process.subscribe process.ack mcp.start")
}

// PolicyWarnings are about rules that name tools which there are none of: they decide nothing.
func PolicyWarnings(s *Settings) (warnings []string) {
	rules, err := PolicyRules(s.Policy)
	if err != nil {
		return nil
	}
	own, err := ExecTools(s.ExecTools)
	if err != nil {
		return nil
	}
	return unknownTools(rules, own)
}

func unknownTools(rules []policy.Rule, own []exec.Tool) (warnings []string) {
	names := gatedNames()
	for _, t := range own {
		names = append(names, t.Name)
	}
	for i, r := range rules {
		for _, pattern := range r.Tool {
			if strings.HasPrefix(pattern, "mcp.") { // what tools a server has is known when it runs
				continue
			}
			if slices.ContainsFunc(names, func(name string) bool { return policy.MatchName(pattern, name) }) {
				continue
			}
			text := fmt.Sprintf("policy: rule %d (%s): there is no tool %s, so that the rule decides nothing about it", i+1, r, capabilities.QuoteName(pattern))
			if near := capabilities.Nearest(pattern, names); near != "" {
				text += "; did you mean " + near + "?"
			}
			warnings = append(warnings, text)
		}
	}
	return warnings
}

func refusePolicy(s *Settings) error {
	_, err := PolicyRules(s.Policy)
	return err
}

// PolicyRules reads the setting policy: texts that are each a JSON object or a list of them.
func PolicyRules(texts []string) ([]policy.Rule, error) {
	var rules []policy.Rule
	var problems []error // of all rules
	count := 0
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			text = "[" + text + "]"
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		var list []json.RawMessage
		if err := decoder.Decode(&list); err != nil {
			return nil, fmt.Errorf(`not JSON: %s; want {"command": "git push", "action": "deny"}`, strings.TrimPrefix(err.Error(), "json: "))
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("something follows the JSON")
		}
		for _, raw := range list {
			r, err := policyRule(raw)
			if err == nil {
				err = r.Check()
			}
			if err != nil {
				problems = append(problems, &elementError{count, "rule", err})
			}
			count++
			rules = append(rules, r)
		}
	}
	if len(problems) == 1 {
		return nil, problems[0]
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return rules, nil
}

// ruleKeys are the keys of a rule.
var ruleKeys = []string{"tool", "command", "exact", "path", "session", "action", "reason"}

func policyRule(raw json.RawMessage) (r policy.Rule, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return r, errors.New("want an object with keys like command and action")
	}
	for _, m := range []struct {
		key string
		to  any
	}{{"tool", &r.Tool}, {"command", &r.Command}, {"exact", &r.Exact}, {"path", &r.Path}, {"session", &r.Session}, {"action", &r.Action}, {"reason", &r.Reason}} {
		value, ok := members[m.key]
		delete(members, m.key)
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, m.to); err != nil {
			return r, memberError(m.key, err)
		}
	}
	for key := range members {
		if near := capabilities.Nearest(key, ruleKeys); near != "" {
			return r, fmt.Errorf("unknown key %q; did you mean %q?", key, near)
		}
		return r, fmt.Errorf("unknown key %q; there are %s", key, strings.Join(ruleKeys, ", "))
	}
	return r, nil
}

func memberError(key string, err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("%s: %s", key, strings.TrimPrefix(err.Error(), key+": "))
	}
	want := map[string]string{"exact": "true or false", "session": "an object of texts"}[key]
	if want == "" {
		want = "a text"
	}
	return fmt.Errorf("%s: want %s, not a JSON %s", key, want, wrong.Value)
}
