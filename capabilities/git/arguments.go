package git

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// arguments are those of a call, taken apart. They are written anew for git: every value attached to its
// option, one letter an option, no name shortened, so that there is one way only to read them.
type arguments struct {
	command *command
	before  []string // options, revisions and paths in front of "--", in their order
	plain   []string // those of before that are no options
	paths   []string // behind "--"
	divided bool     // there was a "--"
	values  map[string][]string
	leading []string // values that are paths
}

func (a *arguments) has(option string) bool { return len(a.values[option]) > 0 }

// refusal is why an option is not allowed.
type refusal struct {
	why     string
	outside bool // it leads out of the roots
}

// refusals are options that somebody may try, on any subcommand, with a better reason than that they are not
// on the list.
var refusals = map[string]refusal{
	"output":             {"it writes a file outside git", true},
	"no-index":           {"it reads files outside the repository", true},
	"contents":           {"it reads a file outside git", true},
	"ignore-revs-file":   {"it reads a file outside git; --ignore-rev names revisions", true},
	"pathspec-from-file": {"it reads a file outside git; give the paths after --", true},
	"file":               {"it reads a file outside git; the message is given with -m", true},
	"template":           {"it reads a file outside git; the message is given with -m", true},
	"O":                  {"it reads a file outside git", true},
	"F":                  {"it reads a file outside git", true},
	"git-dir":            {"the repository is that of the workspace", true},
	"work-tree":          {"the repository is that of the workspace", true},
	"C":                  {"the directory is the workspace, and cannot be changed; paths are given after --", true},
	"exec-path":          {"it names programs to run", true},
	"c":                  {"the configuration cannot be changed", false},
	"config-env":         {"the configuration cannot be changed", false},
	"stdin":              {"there is nothing to read from", false},
	"ext-diff":           {"it runs programs of the configuration", false},
	"textconv":           {"it runs programs of the configuration", false},
	"submodule":          {"it runs git in the submodules", false},
	"recurse-submodules": {"it runs git in the submodules", false},
	"ignore-submodules":  {"only the commits of submodules are looked at", false},
	"paginate":           {"there is no pager", false},
	"help":               {"it starts a viewer", false},
	"h":                  {"it starts a viewer", false},
	"z":                  {"a result is text, which has no NUL", false},
	"null":               {"a result is text, which has no NUL", false},
	"reuse-message":      {"the message is given with -m", false},
	"reedit-message":     {"there is no editor; the message is given with -m", false},
}

func invalid(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeInvalidParams, format, args...)
}

// refuse names the argument, the reason, and what is allowed instead.
func (a *arguments) refuse(arg string, r refusal) error {
	code := protocol.CodeForbidden
	if r.why == "" {
		code, r.why = protocol.CodeInvalidParams, "it is not on the list of what is allowed"
	}
	hint := ""
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if near := capabilities.Nearest(name, longNames(a.command.options)); near != "" && near != name {
		hint = " Did you mean --" + near + "?"
	}
	e := protocol.Errorf(code, "git %s: %s is refused: %s.%s Allowed are: %s", a.command.name, capabilities.QuoteName(arg), r.why,
		hint, strings.Join(a.command.options.list, ", "))
	if r.outside {
		return e.WithReason(protocol.ReasonWorkspaceBoundary)
	}
	return e
}

func longNames(o *options) []string {
	var names []string
	for name := range o.named {
		if len(name) > 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var count = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-[0-9]+$`)
})

// take reads the arguments of a subcommand. Whether the paths are inside is not known yet.
func take(c *command, args []string) (*arguments, error) {
	a := &arguments{command: c, values: map[string][]string{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		next := func() (string, bool) {
			if i+1 < len(args) {
				i++
				return args[i], true
			}
			return "", false
		}
		var err error
		switch {
		case strings.ContainsRune(arg, 0):
			err = invalid("args[%d]: contains a NUL character, which no argument can", i)
		case arg == "--":
			a.divided = true
			for _, path := range args[i+1:] {
				if path = capabilities.UnquoteName(path); strings.ContainsRune(path, 0) {
					return nil, invalid("args: a path contains a NUL character, which no argument can")
				}
				a.paths = append(a.paths, path)
			}
			i = len(args)
		case arg == "-":
			err = a.refuse(arg, refusal{why: "there is nothing to read from"})
		case arg == "":
			err = invalid("args[%d]: is empty", i)
		case c.number && count().MatchString(arg):
			a.before = append(a.before, arg)
		case strings.HasPrefix(arg, "--"):
			err = a.long(arg, next)
		case strings.HasPrefix(arg, "-"):
			err = a.short(arg, next)
		default:
			var name string
			if name, err = plainName(i, arg); err == nil {
				a.before = append(a.before, name)
				a.plain = append(a.plain, name)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if c.check != nil {
		if err := c.check(a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// unquoteLast reads a name, alone or behind what it is in, as in HEAD:$'…'.
func unquoteLast(text string) string {
	if i := strings.Index(text, ":$'"); i >= 0 {
		return text[:i+1] + capabilities.UnquoteName(text[i+1:])
	}
	return capabilities.UnquoteName(text)
}

// plainName is what an argument that is no option means. Written out it must not be one.
func plainName(i int, arg string) (string, error) {
	name := unquoteLast(arg)
	switch {
	case name == "":
		return "", invalid("args[%d]: is empty", i)
	case strings.ContainsRune(name, 0):
		return "", invalid("args[%d]: contains a NUL character, which no argument can", i)
	case name[0] == '-':
		return "", invalid("args[%d]: %s begins with a dash; options are given as they are, and such a path after --", i, arg)
	}
	return name, nil
}

func (a *arguments) long(arg string, next func() (string, bool)) error {
	name, value, attached := strings.Cut(arg[2:], "=")
	o := a.command.options.named[name]
	if o == nil || len(name) == 1 {
		return a.refuse(arg, a.reason(name))
	}
	switch {
	case o.value == none && attached:
		return invalid("git %s: --%s takes no value", a.command.name, name)
	case o.value == required && !attached:
		var ok bool
		if value, ok = next(); !ok {
			return invalid("git %s: --%s needs a value", a.command.name, name)
		}
		attached = true
	}
	return a.add(o, "--"+name, value, attached)
}

// short takes a cluster of letters apart.
func (a *arguments) short(arg string, next func() (string, bool)) error {
	for at := 1; at < len(arg); at++ {
		letter, rest := arg[at:at+1], arg[at+1:]
		o := a.command.options.named[letter]
		if o == nil {
			shown := "-" + letter
			if at == 1 {
				shown = arg
			}
			return a.refuse(shown, a.reason(letter))
		}
		if o.value == none {
			if err := a.add(o, "-"+letter, "", false); err != nil {
				return err
			}
			continue
		}
		if rest == "" && o.value == required {
			var ok bool
			if rest, ok = next(); !ok || rest == "" {
				return invalid("git %s: -%s needs a value", a.command.name, letter)
			}
		}
		return a.add(o, "-"+letter, rest, rest != "")
	}
	return nil
}

func (a *arguments) reason(name string) refusal {
	if r, ok := a.command.refused[name]; ok {
		return r
	}
	return refusals[name]
}

// add writes an option as git is to read it.
func (a *arguments) add(o *option, written, value string, valued bool) error {
	if strings.ContainsRune(value, 0) {
		return invalid("git %s: the value of %s contains a NUL character, which no argument can", a.command.name, written)
	}
	if !valued && o.value == required {
		return invalid("git %s: %s needs a value", a.command.name, written)
	}
	a.values[o.name] = append(a.values[o.name], value)
	if o.path && valued {
		value = unquoteLast(value)
		if strings.ContainsRune(value, 0) {
			return invalid("git %s: the value of %s contains a NUL character, which no argument can", a.command.name, written)
		}
		path := value
		if i := strings.LastIndexByte(value, ':'); i >= 0 {
			path = value[i+1:]
		}
		if path != "" {
			a.leading = append(a.leading, path)
		}
	}
	switch {
	case !valued:
		a.before = append(a.before, written)
	case strings.HasPrefix(written, "--"):
		a.before = append(a.before, written+"="+value)
	case o.long && o.value == required:
		a.before = append(a.before, "--"+o.name+"="+value)
	default:
		a.before = append(a.before, written+value)
	}
	return nil
}

// argv is what git is given.
func (a *arguments) argv() []string {
	list := append([]string{a.command.name}, a.command.fixed...)
	list = append(list, a.before...)
	if a.divided {
		list = append(append(list, "--"), a.paths...)
	}
	return list
}
