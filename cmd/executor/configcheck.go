package main

import (
	"fmt"
	"io"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

func printCheck(r *resolved, w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, struct {
			OK       bool      `json:"ok"`
			File     string    `json:"file"` // "" = none
			Problems []problem `json:"problems"`
			Warnings []string  `json:"warnings"`
		}{len(r.problems) == 0, r.file, append([]problem{}, r.problems...), append([]string{}, r.warnings...)})
	}
	for _, p := range r.problems {
		if _, err := fmt.Fprintf(w, "problem: %s\n", cli.Line(p.say(true))); err != nil {
			return err
		}
	}
	for _, text := range r.warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", cli.Line(text)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", cli.Line(fileOrNone(r.file)), verdict(r))
	return err
}

func verdict(r *resolved) string {
	switch n := len(r.problems); n {
	case 0:
		return "ok, with " + cli.Count(len(r.origins), "setting", "settings") + " that are not the default's"
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
