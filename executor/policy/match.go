package policy

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/agent-executor/executor/executor/gate"
)

// verdict of a rule about a request.
type verdict int

const (
	no verdict = iota
	maybe
	yes
)

// view is a request with what has been found out about it.
type view struct {
	gate.Request
	taken *script
}

// script is what the request runs, taken apart.
func (v *view) script() *script {
	if v.taken == nil {
		if v.Effect.Script != "" {
			v.taken = parse(v.Effect.Script)
		} else {
			v.taken = ofArgv(v.Effect.Argv)
		}
		for name := range v.Effect.Env {
			v.taken.assigned(name)
		}
		if v.Effect.Interactive {
			v.taken.interactive()
		}
		v.taken.judge(v.Effect.Persistent || len(v.Effect.Env) > 0 || v.Session != nil && len(v.Session.Env()) > 0)
	}
	return v.taken
}

func (r Rule) matches(v *view) (verdict, string) {
	if len(r.Tool) > 0 && !slices.ContainsFunc(r.Tool, func(p string) bool { return wildcard(p, v.Name) }) {
		return no, ""
	}
	for key, pattern := range r.Session {
		if v.Session == nil {
			return no, ""
		}
		value, ok := v.Session.Assign().Metadata[key]
		if !ok || !wildcard(pattern, value) {
			return no, ""
		}
	}
	switch {
	case len(r.Command) > 0:
		return r.matchesCommand(v)
	case len(r.Path) > 0:
		return r.matchesPath(v)
	}
	return yes, ""
}

func (r Rule) matchesCommand(v *view) (verdict, string) {
	if !v.Effect.Runs() {
		return no, ""
	}
	if r.Action != Allow {
		return v.script().has(r.Command)
	}
	argv, ok := SeesThrough(v.Request)
	if !ok || len(argv) < len(r.Command) || r.Exact && len(argv) != len(r.Command) {
		return no, ""
	}
	for i, w := range r.Command {
		if argv[i] != w {
			return no, ""
		}
	}
	return yes, ""
}

func (r Rule) matchesPath(v *view) (verdict, string) {
	if len(v.Effect.Paths) == 0 {
		return no, ""
	}
	if r.Action == Allow {
		for _, p := range v.Effect.Paths {
			for _, form := range v.forms(p) {
				if !r.covers(form, v.Effect.Tree) {
					return no, ""
				}
			}
		}
		return yes, ""
	}
	answer, why := no, ""
	for _, p := range v.Effect.Paths {
		for _, form := range v.forms(p) {
			switch {
			case slices.ContainsFunc(r.Path, func(pattern string) bool { return matchPath(pattern, form) }):
				return yes, ""
			case v.Effect.Tree && slices.ContainsFunc(r.Path, func(pattern string) bool { return reaches(form, pattern) }):
				answer, why = maybe, form.rel+" may have such paths in it"
			}
		}
	}
	return answer, why
}

// covers reports whether one of the patterns matches a path and, for a tree, whatever is below it.
func (r Rule) covers(f form, tree bool) bool {
	return slices.ContainsFunc(r.Path, func(pattern string) bool {
		if !matchPath(pattern, f) {
			return false
		}
		return !tree || strings.HasSuffix(pattern, "**")
	})
}

// form is one way to name a path: as it was named, and as the workspace finds it.
type form struct {
	rel string // below the workspace's directory, with slashes; or as abs
	abs string
}

// forms are all ways to name a path that a rule may know: without its dots, with links followed, with those
// but the last followed.
func (v *view) forms(name string) []form {
	if v.Session == nil || v.Session.Workspace() == nil {
		return []form{{filepath.ToSlash(filepath.Clean(name)), filepath.ToSlash(filepath.Clean(name))}}
	}
	w := v.Session.Workspace()
	spelled := name
	if !filepath.IsAbs(spelled) {
		spelled = filepath.Join(w.Dir(), spelled)
	}
	list := []string{filepath.Clean(spelled)}
	if p, err := w.Resolve(name); err == nil {
		list = append(list, p.Abs)
	}
	if p, err := w.ResolveLink(name); err == nil {
		list = append(list, p.Abs)
	}
	var forms []form
	for _, abs := range list {
		f := form{abs: filepath.ToSlash(abs)}
		f.rel = f.abs
		if rel, err := filepath.Rel(w.Dir(), abs); err == nil && filepath.IsLocal(rel) {
			f.rel = filepath.ToSlash(rel)
		}
		if !slices.Contains(forms, f) {
			forms = append(forms, f)
		}
	}
	return forms
}

func (v *view) inWorkspace(dir string) bool {
	if v.Session == nil || v.Session.Workspace() == nil {
		return false
	}
	_, err := v.Session.Workspace().Resolve(dir)
	return err == nil
}

func matchPath(pattern string, f form) bool {
	name := f.rel
	if strings.HasPrefix(pattern, "/") {
		name = f.abs
	}
	pattern, name = fold(pattern), fold(name)
	ok, err := doublestar.Match(pattern, name)
	return err == nil && ok
}

// fold is for file systems that do not tell upper from lower case.
func fold(s string) string {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return strings.ToLower(s)
	}
	return s
}

// reaches reports whether a pattern could match something below a directory.
func reaches(dir form, pattern string) bool {
	name := dir.rel
	if strings.HasPrefix(pattern, "/") {
		name = dir.abs
	}
	if name == "." || strings.HasPrefix(name, "/") != strings.HasPrefix(pattern, "/") {
		return true
	}
	pattern, name = fold(pattern), fold(name)
	if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, "{}") {
		fixed, _ := doublestar.SplitPattern(pattern)
		return fixed == "." || fixed == "/" || fixed == name || strings.HasPrefix(fixed, name+"/") || strings.HasPrefix(name, fixed+"/")
	}
	// Each part of the pattern stands for one of the path.
	parts, depth := strings.Split(pattern, "/"), strings.Count(name, "/")+1
	if len(parts) <= depth {
		return false
	}
	ok, err := doublestar.Match(strings.Join(parts[:depth], "/"), name)
	return err == nil && ok
}

// MatchName reports whether a name is what a pattern of a rule's Tool is for.
func MatchName(pattern, name string) bool { return wildcard(pattern, name) }

// wildcard matches a text with a pattern of * and ?.
func wildcard(pattern, text string) bool {
	star, mark := -1, 0
	i := 0
	for j := 0; j < len(text); {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == text[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}
