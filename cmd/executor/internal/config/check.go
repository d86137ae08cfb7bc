package config

import (
	"fmt"
	"io"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// PrintCheck prints all that is wrong with the settings, each in a line, and a verdict.
func PrintCheck(r *Resolved, w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, struct {
			OK       bool      `json:"ok"`
			File     string    `json:"file"` // "" = none
			Problems []Problem `json:"problems"`
			Warnings []string  `json:"warnings"`
		}{len(r.Problems) == 0, r.File, append([]Problem{}, r.Problems...), append([]string{}, r.Warnings...)})
	}
	for _, p := range r.Problems {
		if _, err := fmt.Fprintf(w, "problem: %s\n", cli.Line(p.Say(true))); err != nil {
			return err
		}
	}
	for _, text := range r.Warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", cli.Line(text)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", cli.Line(fileOrNone(r.File)), verdict(r))
	return err
}

func verdict(r *Resolved) string {
	switch n := len(r.Problems); n {
	case 0:
		return "ok, with " + cli.Count(len(r.Origins), "setting", "settings") + " that are not the default's"
	default:
		return cli.Count(n, "problem", "problems")
	}
}

func fileOrNone(path string) string {
	if path == "" {
		return "no configuration file"
	}
	return path
}
