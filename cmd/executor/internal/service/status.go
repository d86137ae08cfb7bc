package service

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// said gathers what a service command says: what was done, and what comes next.
type said struct {
	w    io.Writer
	json bool

	lines, nexts []string
}

func (s *said) line(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}
func (s *said) next(command string) { s.nexts = append(s.nexts, command) }
func (s *said) pending() bool       { return len(s.nexts) > 0 }

// end prints it.
func (s *said) end() error {
	if s.json {
		return cli.WriteJSON(s.w, struct {
			Done []string `json:"done"`
			Next []string `json:"next"` // commands
		}{append([]string{}, s.lines...), append([]string{}, s.nexts...)})
	}
	var b strings.Builder
	for _, line := range s.lines {
		fmt.Fprintf(&b, "%s\n", cli.Line(line))
	}
	if len(s.nexts) > 0 {
		b.WriteString("next:\n")
	}
	for _, line := range s.nexts {
		fmt.Fprintf(&b, "  %s\n", cli.Line(line))
	}
	_, err := io.WriteString(s.w, b.String())
	return err
}

// serviceState is what service status says.
type serviceState struct {
	Unit    string `json:"unit"`    // path; "" = none
	Changed bool   `json:"changed"` // by hand, or not made by install
	Active  string `json:"active"`  // as systemctl says it
	Enabled string `json:"enabled"`
	Linger  bool   `json:"linger"` // of a user's service: it runs without a login
	Doctor  string `json:"doctor"` // the command that checks what the service could do
}

func serviceStatus(ctx context.Context, d systemd, o serviceOptions, cmd *cobra.Command) error {
	if why := d.absent(); why != "" {
		return fmt.Errorf("%s, so that there is no service; executor run runs in the foreground", why)
	}
	name := unit{system: o.system, template: o.template}.name()
	state := serviceState{Unit: d.find(o.system, name), Linger: d.lingers(), Doctor: "executor doctor"}
	if state.Unit == "" {
		return fmt.Errorf("no unit %s is installed; executor service install%s writes one", name, map[bool]string{true: " --system"}[o.system])
	}
	if raw, err := os.ReadFile(state.Unit); err == nil {
		state.Changed = !sealed(string(raw)) && strings.HasPrefix(state.Unit, d.dir(o.system))
	}
	state.Active, state.Enabled = d.word(ctx, o.system, "is-active", name), d.word(ctx, o.system, "is-enabled", name)
	if o.system {
		state.Doctor = "systemd-run --pipe --wait -q -p User=executor -p LoadCredential=token:/etc/executor/token -p StateDirectory=executor executor doctor --config " + config.SystemFile
	}
	if cli.JSON(cmd) {
		return cli.WriteJSON(cmd.OutOrStdout(), state)
	}
	text := fmt.Sprintf("unit     %s%s\nactive   %s\nenabled  %s\n", state.Unit, map[bool]string{true: " (changed by hand)"}[state.Changed], state.Active, state.Enabled)
	if !o.system {
		text += "linger   " + map[bool]string{true: "yes", false: "no: it ends at logout; loginctl enable-linger"}[state.Linger] + "\n"
	}
	_, err := io.WriteString(cmd.OutOrStdout(), cli.Text(text+"check    "+state.Doctor+"\n"))
	return err
}
