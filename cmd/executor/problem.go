package main

import (
	"fmt"
	"strings"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// problem is one thing that is wrong with the settings: what, where, and what to do. It
// never has a value in it that may be secret.
type problem struct {
	Source string `json:"source"`           // the file, the variable or the flag
	Line   int    `json:"line,omitempty"`   // of a file, from 1; 0 = the file as a whole, or no file
	Column int    `json:"column,omitempty"` // in characters, from 1
	Key    string `json:"key,omitempty"`
	Text   string `json:"problem"`
	Meant  string `json:"did_you_mean,omitempty"` // the nearest known key
	Remedy string `json:"remedy"`
	named  bool   // the text names the key already
}

// problemf makes one. What the text says behind the first semicolon, or from "want" on,
// is the remedy.
func problemf(source, key string, format string, args ...any) problem {
	p := problem{Source: source, Key: key, Text: fmt.Errorf(format, args...).Error()}
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
func (p problem) Error() string { return p.say(false) }

func (p problem) say(column bool) string {
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

// origin is where a setting comes from.
type origin struct {
	Kind string `json:"kind"`           // flag, variable, file or default
	Name string `json:"name,omitempty"` // of the flag, the variable or the file
	Line int    `json:"line,omitempty"` // of the file
}

func (o origin) String() string {
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

// resolved are the effective settings and all that was found on the way to them.
type resolved struct {
	settings settings
	origins  map[string]origin // by flag; what is missing has its default
	file     string            // that was read; "" = none
	ignored  string            // another one in a default place, which is not read
	warnings []string          // about what is ignored or dangerous
	problems []problem
}

func (r *resolved) add(p problem) { r.problems = append(r.problems, p) }

func (r *resolved) warn(text string) { r.warnings = append(r.warnings, text) }

// originOf is where a setting comes from.
func (r *resolved) originOf(flag string) origin {
	if o, ok := r.origins[flag]; ok {
		return o
	}
	return origin{Kind: originDefault}
}

// at is a problem with a setting, wherever it was set.
func (r *resolved) at(flag, format string, args ...any) problem {
	o := r.originOf(flag)
	key := strings.ReplaceAll(flag, "-", "_")
	source := o.Name
	if o.Kind == originDefault {
		source = ""
	}
	p := problemf(source, key, format, args...)
	p.Line = o.Line
	p.named = strings.HasPrefix(strings.NewReplacer(" ", "_", "-", "_").Replace(p.Text), key)
	return p
}

// err is what a start says: the first problem, and how to see the others.
func (r *resolved) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	text := r.problems[0].Error()
	if n := len(r.problems) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more: see executor config check)", n)
	}
	return cli.Usagef("%s", text)
}
