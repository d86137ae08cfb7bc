package config

import (
	"fmt"
	"strings"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// Problem is one thing that is wrong with the settings: what, where, and what to do. It
// never has a value in it that may be secret.
type Problem struct {
	Source string `json:"source"`           // the file, the variable or the flag
	Line   int    `json:"line,omitempty"`   // of a file, from 1; 0 = the file as a whole, or no file
	Column int    `json:"column,omitempty"` // in characters, from 1
	Key    string `json:"key,omitempty"`
	Text   string `json:"problem"`
	Meant  string `json:"did_you_mean,omitempty"` // the nearest known key
	Remedy string `json:"remedy"`
	named  bool   // the text names the key already
}

// Problemf makes one. What the text says behind the first semicolon, or from "want" on,
// is the remedy.
func Problemf(source, key string, format string, args ...any) Problem {
	p := Problem{Source: source, Key: key, Text: fmt.Errorf(format, args...).Error()}
	p.Text = strings.TrimPrefix(p.Text, key+": ")
	switch _, after, ok := strings.Cut(p.Text, "; "); {
	case ok:
		p.Remedy = after
	case strings.Contains(p.Text, "want "):
		p.Remedy = p.Text[strings.Index(p.Text, "want "):]
	default:
		p.Remedy = "correct it, or leave it out for the default"
	}
	return p
}

// Error is the problem in one line, as a start says it.
func (p Problem) Error() string { return p.Say(false) }

// Say is Error, with the column if it is wanted.
func (p Problem) Say(column bool) string {
	where := p.Source
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, p.Line)
	}
	if p.Column > 0 && column {
		where = fmt.Sprintf("%s:%d", where, p.Column)
	}
	text := p.Text
	if p.Key != "" && p.Line > 0 && !p.named {
		text = p.Key + ": " + text
	}
	if where == "" {
		return text
	}
	return where + ": " + text
}

// Origin is where a setting comes from.
type Origin struct {
	Kind string `json:"kind"`           // flag, variable, file or default
	Name string `json:"name,omitempty"` // of the flag, the variable or the file
	Line int    `json:"line,omitempty"` // of the file
}

// String is the origin as config show says it.
func (o Origin) String() string {
	switch {
	case o.Kind == originDefault:
		return o.Kind
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	}
	return o.Kind + " " + o.Name
}

const (
	originFlag     = "flag"
	originVariable = "variable"
	originFile     = "file"
	originDefault  = "default"
)

// Resolved are the effective settings and all that was found on the way to them.
type Resolved struct {
	Settings Settings
	Origins  map[string]Origin // by flag; what is missing has its default
	File     string            // that was read; "" = none
	Ignored  string            // another one in a default place, which is not read
	Warnings []string          // about what is ignored or dangerous
	Problems []Problem
}

// Add adds a problem.
func (r *Resolved) Add(p Problem) { r.Problems = append(r.Problems, p) }

// Warn adds a warning.
func (r *Resolved) Warn(text string) { r.Warnings = append(r.Warnings, text) }

// originOf is where a setting comes from.
func (r *Resolved) originOf(flag string) Origin {
	if o, ok := r.Origins[flag]; ok {
		return o
	}
	return Origin{Kind: originDefault}
}

// At is a problem with a setting, wherever it was set.
func (r *Resolved) At(flag, format string, args ...any) Problem {
	o := r.originOf(flag)
	key := strings.ReplaceAll(flag, "-", "_")
	source := o.Name
	if o.Kind == originDefault {
		source = ""
	}
	p := Problemf(source, key, format, args...)
	p.Line = o.Line
	p.named = strings.HasPrefix(strings.NewReplacer(" ", "_", "-", "_").Replace(p.Text), key)
	return p
}

// Err is what a start says: the first problem, and how to see the others.
func (r *Resolved) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	text := r.Problems[0].Error()
	if n := len(r.Problems) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more: see executor config check)", n)
	}
	return cli.Usagef("%s", text)
}
