package files

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/search"
	"github.com/agent-executor/executor/protocol"
)

// globLimit is how many paths glob shows when the call does not say, and maxSearchLimit how
// many any search shows at most.
const (
	globLimit      = 1000
	maxSearchLimit = 10_000
)

type globInput struct {
	Pattern  string `json:"pattern" jsonschema:"shell pattern: * ? [a-z] {a,b}, and ** for any directories; a slash at the end means directories"`
	Path     string `json:"path,omitempty" jsonschema:"the directory the pattern is relative to; the workspace when left out"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many paths to show"`
	Hidden   bool   `json:"hidden,omitempty" jsonschema:"also names that begin with a dot"`
	NoIgnore bool   `json:"no_ignore,omitempty" jsonschema:"also what .gitignore and .ignore leave out"`
}

// Check refuses what no tree can make right.
func (in globInput) Check() error { return checkLimit(in.Limit) }

func checkLimit(limit int) error {
	if limit < 0 || limit > maxSearchLimit {
		return protocol.Errorf(protocol.CodeInvalidParams, "limit: must be between 1 and %s, or left out", count(maxSearchLimit))
	}
	return nil
}

// globOutput is the structured result.
type globOutput struct {
	Matches   []string `json:"matches"` // newest first
	Count     int      `json:"count"`   // of all matches, also of those that are not in Matches
	Truncated bool     `json:"truncated"`
	Skipped   *skipped `json:"skipped,omitempty"`
}

// skipped is what a search left out, as search.Skipped has it.
type skipped struct {
	Hidden          int                 `json:"hidden,omitempty"`
	Ignored         int                 `json:"ignored,omitempty"`
	Links           int                 `json:"links,omitempty"`
	Special         int                 `json:"special,omitempty"`
	Binary          int                 `json:"binary,omitempty"`
	TooLong         int                 `json:"too_long,omitempty"`
	Unreadable      []search.Unreadable `json:"unreadable,omitempty"`
	UnreadableCount int                 `json:"unreadable_count,omitempty"`
}

func skippedOf(s search.Skipped) *skipped {
	out := skipped{s.Hidden, s.Ignored, s.Links, s.Special, s.Binary, s.TooLong, s.Unreadable, s.UnreadableCount}
	if out.Hidden+out.Ignored+out.Links+out.Special+out.Binary+out.TooLong+out.UnreadableCount == 0 {
		return nil
	}
	return &out
}

// leftOutNote says in tools' descriptions what a search does not look at.
const leftOutNote = "Names that begin with a dot are left out unless hidden is set or the pattern spells the dot; what .gitignore, .ignore and " +
	".git/info/exclude name is left out unless no_ignore is set. Symbolic links are not followed. The result says what was left out."

func (f *Files) addGlob(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "glob",
		Description: fmt.Sprintf("Find files by name, the most recently changed first, %s by default. *.go is for one directory, **/*.go for all below it; src/ is the directory, src/** what is in it. ",
			count(globLimit)) + leftOutNote,
		OutputSchema: capabilities.OutputSchema[globOutput](),
		Annotations:  protocol.Annotations{ReadOnly: true, Idempotent: true},
	}, f.glob)
}

func (f *Files) glob(ctx context.Context, call *capabilities.Call, in globInput) (protocol.ToolOutput, error) {
	limit := in.Limit
	if limit == 0 {
		limit = globLimit
	}
	found, err := search.Glob(ctx, call.Session().Workspace(), search.GlobOptions{
		Pattern: in.Pattern, Path: in.Path, Limit: limit, Hidden: in.Hidden, NoIgnore: in.NoIgnore,
	})
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	var text strings.Builder
	shown := found.Matches
	for i, path := range found.Matches {
		if text.Len()+len(path) > f.room() {
			shown = shown[:i]
			break
		}
		text.WriteString(path + "\n")
	}
	out := globOutput{Matches: shown, Count: found.Count, Truncated: len(shown) < found.Count, Skipped: skippedOf(found.Skipped)}
	switch {
	case found.Count == 0:
		text.WriteString("[nothing matches]\n")
		if hint := dirHint(ctx, call.Session().Workspace(), in); hint != "" {
			text.WriteString(hint)
		} else if hint := severalHint(in.Pattern); hint != "" {
			text.WriteString(hint)
		} else if !strings.ContainsAny(in.Pattern, "/{") {
			fmt.Fprintf(&text, "[%s is for one directory only; %s looks below, too]\n", capabilities.QuoteName(in.Pattern), capabilities.QuoteName("**/"+in.Pattern))
		}
	case out.Truncated && len(shown) < limit:
		fmt.Fprintf(&text, "[the newest %s of %s; a narrower pattern or path shows others]\n", count(len(shown)), plural(int64(found.Count), "path"))
	case out.Truncated:
		fmt.Fprintf(&text, "[the newest %s of %s; limit shows more, a narrower pattern or path shows others]\n", count(len(shown)), plural(int64(found.Count), "path"))
	}
	leftOut(&text, found.Skipped)
	return output(out, strings.TrimSuffix(text.String(), "\n")), nil
}

// dirHint is for a pattern that matches nothing but directories, "" for others. It looks
// only for patterns that may be meant so, not for those of names with an extension.
func dirHint(ctx context.Context, w *capabilities.Workspace, in globInput) string {
	pattern := capabilities.UnquoteName(in.Pattern)
	name := path.Base(pattern)
	if strings.HasSuffix(pattern, "/") || strings.ContainsAny(pattern, globSpecial) && strings.Contains(name[1:], ".") {
		return ""
	}
	dirs, err := search.Glob(ctx, w, search.GlobOptions{Pattern: capabilities.QuoteName(pattern + "/"), Path: in.Path, Limit: 1, Hidden: in.Hidden, NoIgnore: in.NoIgnore})
	if err != nil || dirs.Count == 0 {
		return ""
	}
	what := dirs.Matches[0] + " is a directory"
	if dirs.Count > 1 {
		what = count(dirs.Count) + " directories do, " + dirs.Matches[0] + " for one"
	}
	return fmt.Sprintf("[%s: %s finds directories, %s what is in them]\n", what, capabilities.QuoteName(pattern+"/"), capabilities.QuoteName(pattern+"/**"))
}

// room is how many bytes of a search's text are for what it found.
func (f *Files) room() int { return max(f.opts.MaxTextBytes-2*noteBytes, f.opts.MaxTextBytes/2) }

// leftOut adds the lines about what a search left out.
func leftOut(text *strings.Builder, s search.Skipped) {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, count(n)+" "+what)
		}
	}
	add(s.Hidden, "hidden (hidden: true takes them in)")
	add(s.Ignored, "by .gitignore or .ignore (no_ignore: true takes them in)")
	add(s.Links, "symbolic links, not followed")
	add(s.Special, "FIFOs, devices or sockets")
	add(s.Binary, "binary (the command grep -a takes them in)")
	add(s.TooLong, "too large for multiline")
	if len(parts) > 0 {
		fmt.Fprintf(text, "[left out: %s]\n", strings.Join(parts, "; "))
	}
	var size int
	for i, u := range s.Unreadable {
		if size += len(u.Path) + len(u.Reason); size > noteBytes/2 || i == 5 {
			fmt.Fprintf(text, "[and %s more that cannot be read]\n", count(s.UnreadableCount-i))
			return
		}
		fmt.Fprintf(text, "[cannot be read: %s: %s]\n", u.Path, u.Reason)
	}
	if more := s.UnreadableCount - len(s.Unreadable); more > 0 {
		fmt.Fprintf(text, "[and %s more that cannot be read]\n", count(more))
	}
}
