package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Rule says what is done with the requests that it matches: those that all of its conditions hold for. One that
// is left out holds for all.
type Rule struct {
	// Tool is the name of a tool or a method, like bash, write or process.start, or a pattern for names: * is any
	// text, ? any character.
	Tool Names `json:"tool,omitempty"`
	// Command is a program with its first arguments. A rule that allows matches a single command of these words, and
	// any further ones, without anything that a shell would do something with. A rule that denies or asks
	// matches wherever in a script, or behind other programs, such a command stands; options may be between its
	// words.
	Command Words `json:"command,omitempty"`
	// Exact: for a rule that allows, the command has these words and no further ones.
	Exact bool `json:"exact,omitempty"`
	// Path are patterns, as for glob, of what file tools touch: relative to the workspace's directory, or absolute.
	// They say nothing about commands.
	Path Names `json:"path,omitempty"`
	// Session are patterns for the session's metadata, by key.
	Session map[string]string `json:"session,omitempty"`

	Action Action `json:"action"`
	// Reason is told to the model and the local user.
	Reason string `json:"reason,omitempty"`
}

// Names is a list, which may be written as one text.
type Names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *Names) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*n = Names{one}
		return nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return errors.New("want a text or a list of texts")
	}
	*n = list
	return nil
}

// Words is a command taken apart, which may be written as one text: it is split as a shell would.
type Words []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *Words) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		argv := parse(text).plain
		if argv == nil {
			return fmt.Errorf("command: %q is not one plain command; want a program and its first arguments, or a list of them", text)
		}
		*w = argv
		return nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return errors.New("command: want a text or a list of words")
	}
	*w = list
	return nil
}

// Check says what is wrong with a rule, if anything.
func (r Rule) Check() error {
	switch r.Action {
	case Allow, Ask, Deny:
	case "":
		return errors.New("action: is missing; want allow, ask or deny")
	default:
		return fmt.Errorf("action: %q: want allow, ask or deny", r.Action)
	}
	if r.Command != nil && (len(r.Command) == 0 || r.Command[0] == "") {
		return errors.New("command: is empty; want a program and its first arguments")
	}
	if r.Exact && (len(r.Command) == 0 || r.Action != Allow) {
		return errors.New("exact: is for a rule that allows a command")
	}
	if len(r.Command) > 0 && len(r.Path) > 0 {
		return errors.New("path: is for tools that work on files, command for what runs programs; make two rules")
	}
	for _, list := range []struct {
		key   string
		names Names
	}{{"tool", r.Tool}, {"path", r.Path}} {
		if list.names != nil && len(list.names) == 0 {
			return fmt.Errorf("%s: is empty; leave it out for all", list.key)
		}
		if slices.Contains(list.names, "") {
			return fmt.Errorf("%s: a name is empty", list.key)
		}
	}
	for _, p := range r.Path {
		if !doublestar.ValidatePattern(p) {
			return fmt.Errorf("path: %q is not a pattern", p)
		}
		if slices.Contains(strings.Split(p, "/"), "..") {
			return fmt.Errorf("path: %q: .. never matches; write where it leads", p)
		}
	}
	return nil
}

// String is the rule in a few words.
func (r Rule) String() string {
	text := string(r.Action)
	if len(r.Tool) > 0 {
		text += " tool " + strings.Join(r.Tool, ",")
	}
	if len(r.Command) > 0 {
		text += " command " + strings.Join(r.Command, " ")
	}
	if len(r.Path) > 0 {
		text += " path " + strings.Join(r.Path, ",")
	}
	for _, key := range slices.Sorted(maps.Keys(r.Session)) {
		text += " session " + key + "=" + r.Session[key]
	}
	return text
}
