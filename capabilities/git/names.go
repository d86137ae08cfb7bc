package git

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
)

// unquoteC reads a name as git writes one that is not plain: in double quotes, with the escapes of C. It never
// is empty, and has no NUL.
func unquoteC(text string) (name string, ok bool) {
	if len(text) < 3 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", false
	}
	in := text[1 : len(text)-1]
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		switch {
		case in[i] == '"' || in[i] == 0:
			return "", false
		case in[i] != '\\':
			out = append(out, in[i])
			continue
		}
		if i++; i == len(in) {
			return "", false
		}
		if at := strings.IndexByte(`abfnrtv"\`, in[i]); at >= 0 {
			out = append(out, "\a\b\f\n\r\t\v\"\\"[at])
			continue
		}
		if i+2 >= len(in) || in[i] > '3' {
			return "", false
		}
		value := 0
		for _, digit := range []byte(in[i : i+3]) {
			if digit < '0' || digit > '7' {
				return "", false
			}
			value = value<<3 | int(digit-'0')
		}
		if value == 0 {
			return "", false
		}
		out = append(out, byte(value))
		i += 2
	}
	return string(out), true
}

var quotedName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"(?:[^"\\\n]|\\.)+"`)
})

// showNames writes the names in what git printed as the other tools write them. It is for output of which every
// line is about a file, but for those that begin with #.
func showNames(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case line[0] == '#':
		case strings.IndexByte(line, '"') < 0:
			// Plain to git, and quoted to the other tools.
			if at := strings.Index(line, "$'"); at >= 0 && strings.HasSuffix(line, "'\n") && (at == 0 || line[at-1] == ' ' || line[at-1] == '\t') {
				line = line[:at] + capabilities.QuoteName(strings.TrimSuffix(line[at:], "\n")) + "\n"
			}
		default:
			line = quotedName().ReplaceAllStringFunc(line, func(quoted string) string {
				name, ok := unquoteC(quoted)
				if !ok || strings.Contains(name, " -> ") { // what stands between the names of what was renamed
					return quoted
				}
				return capabilities.QuoteName(name)
			})
		}
		b.WriteString(line)
	}
	return b.String()
}

// showStatus is showNames for the long form of a status, where names are in the lines that begin with a tab.
func showStatus(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line[0] == '\t' {
			line = showNames(line)
		}
		b.WriteString(line)
	}
	return b.String()
}

// lists says whether what git prints are names and no contents, and whether there is nothing else in it.
func (a *arguments) lists() (names, only bool) {
	switch a.command.name {
	case "status", "ls-files":
		return true, true
	case "log", "show", "diff":
	default:
		return false, false
	}
	for option := range a.values {
		switch option {
		case "name-only", "name-status", "stat", "numstat", "raw", "summary", "compact-summary":
			names = true
		case "patch", "unified", "patch-with-stat", "word-diff", "word-diff-regex", "function-context", "binary", "L", "cc":
			return false, false
		}
	}
	return names, names && a.command.name == "diff"
}

var headOfPatch = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(?:diff --(?:git|cc|combined) |\+\+\+ |--- |(?:rename|copy) (?:from|to) |Binary files )[^\n]*\x{FFFD}`)
})

// unreadable says whether there are names in what git printed that are not text, and so cannot be read back. In
// the content of files such bytes are nobody's fault.
func (a *arguments) unreadable(printed string) bool {
	names, _ := a.lists()
	return names || headOfPatch().MatchString(printed)
}

// shows is how what git prints is to be written for the result; nil is as it is.
func (a *arguments) shows() func(string) string {
	_, only := a.lists()
	switch {
	case !only:
		return nil
	case a.command.name == "status" && !a.has("short") && !a.has("porcelain"):
		return showStatus
	}
	return showNames
}

// readNames takes names as git has written them: in double quotes, unless there is a file of that very name.
func (r *repository) readNames(a *arguments) {
	for i, arg := range a.paths {
		if name, ok := unquoteC(arg); ok && !r.there(arg) {
			a.paths[i] = name
		}
	}
	for i, arg := range a.before {
		// Names of branches may have quotes in them, but no backslash.
		name, ok := unquoteC(arg)
		if ok && (a.command.pathful || strings.Contains(arg, `\`)) && !r.there(arg) && name[0] != '-' {
			a.before[i] = name
			a.plain[slices.Index(a.plain, arg)] = name
		}
	}
}

func (r *repository) there(path string) bool {
	p, err := r.workspace.ResolveLink(capabilities.QuoteName(path))
	return err == nil && exists(p.Abs)
}

// literally makes git take a path for what it is when there is a file of that very name, here, in the index or in
// the last commit, and git would take it for a pattern.
func (r *repository) literally(ctx context.Context, a *arguments) error {
	if slices.Contains([]string{"blame", "branches", "rev-parse", "describe"}, a.command.name) {
		return nil // these have no patterns of paths
	}
	var odd []*string
	for i, arg := range a.paths {
		if strings.HasPrefix(arg, ":") || strings.ContainsAny(arg, `*?[\`) {
			odd = append(odd, &a.paths[i])
		}
	}
	for i, arg := range a.before {
		switch {
		case arg[0] == '-':
		case a.command.pathful && arg[0] == ':', strings.ContainsAny(arg, `*?[\`) && !strings.Contains(arg, ":"):
			odd = append(odd, &a.before[i])
		}
	}
	var missing []*string
	for _, arg := range odd {
		if r.there(*arg) {
			*arg = ":(literal)" + *arg
		} else {
			missing = append(missing, arg)
		}
	}
	if len(missing) == 0 || r.top == "" {
		return nil
	}
	known, err := r.tracked(ctx, missing)
	if err != nil {
		return err
	}
	for _, arg := range missing {
		if known[r.fromDir(*arg)] {
			*arg = ":(literal)" + *arg
		}
	}
	return nil
}

// fromDir is a path as git prints it, from the workspace's directory.
func (r *repository) fromDir(name string) string {
	if filepath.IsAbs(name) {
		if rel, err := filepath.Rel(r.dir, name); err == nil {
			name = filepath.ToSlash(rel)
		}
	}
	return path.Clean(filepath.ToSlash(name))
}

// tracked says which names are in the index or in the last commit, themselves or as a directory.
func (r *repository) tracked(ctx context.Context, names []*string) (map[string]bool, error) {
	args := make([]string, len(names))
	known := map[string]bool{}
	for i, name := range names {
		args[i] = r.fromDir(*name)
	}
	note := func(item string) {
		for at := item; at != "." && at != "/" && !known[at]; at = path.Dir(at) {
			known[at] = true
		}
	}
	for _, ask := range [][]string{{"ls-files", "--cached", "-z", "--"}, {"ls-tree", "--name-only", "-z", "HEAD", "--"}} {
		err := r.each(ctx, note, slices.Concat([]string{"--literal-pathspecs"}, ask, args)...)
		if err != nil && !errors.Is(err, errGit) { // there may be no commit
			return nil, err
		}
	}
	return known, nil
}
