package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/executor/policy"
)

// maxShown are bytes of what the user is shown.
const maxShown = 32 << 10

// subject is what a request is about, for the user and for decisions that hold for more than one.
type subject struct {
	what  string // for people
	dir   string
	key   string // equal for requests that are the same to a decision; "" for none
	again string // equal for the same request of a method
}

// subjectOf tells requests apart: what runs something by all of its words, its directory and environment; what works on
// files by their paths; everything else by its input.
func subjectOf(r gate.Request) subject {
	e := r.Effect
	s := subject{again: hash("again", canonical(r.Input))}
	parts := []string{r.Name}
	switch {
	case e.Runs():
		s.dir = dirOf(r)
		if argv, ok := policy.SeesThrough(r); ok {
			s.what = quoteAll(argv)
			parts = append(append(parts, "argv"), argv...)
		} else {
			s.what = e.Script
			if s.what == "" {
				s.what = quoteAll(e.Argv)
			}
			parts = append(parts, "script", s.what)
		}
		parts = append(parts, "dir", s.dir, "flags", flag(e.Persistent), flag(e.Interactive), "env")
		for _, name := range slices.Sorted(maps.Keys(e.Env)) {
			parts = append(parts, name+"="+e.Env[name])
			s.what += "\n(with the variable " + name + "=" + e.Env[name] + ")"
		}
		if e.Interactive {
			s.what += "\n(and gets input later)"
		}
	case len(e.Paths) > 0:
		s.what = strings.Join(e.Paths, " ") + "\n" + string(r.Input)
		parts = append(parts, "paths", flag(e.Tree))
		for _, p := range e.Paths {
			parts = append(parts, placeOf(r, p))
		}
	case e.Follows:
		s.what = r.ID
		if e.Bytes > 0 {
			s.what += ": input for it"
		}
		parts = append(parts, "follows", r.ID)
	default:
		s.what = string(r.Input)
		parts = append(parts, "input", canonical(r.Input))
	}
	if missing := len(s.what) - maxShown; missing > 0 {
		s.what = fmt.Sprintf("%s\n(%d bytes more are not shown)", cut(s.what, maxShown), missing)
	}
	s.key = hash(parts...)
	return s
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// placeOf is the place that a path leads to now.
func placeOf(r gate.Request, path string) string {
	if r.Session == nil {
		return path
	}
	p, err := r.Session.Workspace().Resolve(path)
	if err != nil {
		return path
	}
	return p.Abs
}

func dirOf(r gate.Request) string {
	dir := r.Effect.Dir
	if dir == "" {
		dir = "."
	}
	if r.Session == nil {
		return dir
	}
	if p, err := r.Session.Workspace().Resolve(dir); err == nil {
		return p.Abs
	}
	return dir
}

// canonical is an input without what makes no difference to what is done.
func canonical(raw json.RawMessage) string {
	var members map[string]any
	if json.Unmarshal(raw, &members) != nil {
		return string(raw)
	}
	for _, name := range []string{"session_id", "wait_ms", "timeout_ms", "description"} {
		delete(members, name)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

// hash is one for each list of texts.
func hash(parts ...string) string {
	raw, err := json.Marshal(parts)
	if err != nil {
		raw = []byte(strings.Join(parts, "\x00"))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func quoteAll(argv []string) string {
	list := make([]string, len(argv))
	for i, w := range argv {
		list[i] = quote(w)
	}
	return strings.Join(list, " ")
}

// quote is a word as a shell takes it.
func quote(w string) string {
	plain := func(c rune) bool {
		return c < utf8.RuneSelf && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("_-./:=,@%+^", c))
	}
	if w != "" && strings.IndexFunc(w, func(c rune) bool { return !plain(c) }) < 0 {
		return w
	}
	if capabilities.QuoteName(w) != w { // it has what a terminal would take for something else
		return capabilities.QuoteName(w)
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// cut is at most n bytes of a text, and says what is missing.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
