package main

import (
	"fmt"
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

// policyWarnings are about rules that name tools which there are none of: they decide nothing.
func policyWarnings(s *settings) (warnings []string) {
	rules, err := policyRules(s.Policy)
	if err != nil {
		return nil
	}
	own, err := execTools(s.ExecTools)
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
