package files

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/search"
	"github.com/agent-executor/executor/protocol"
)

const (
	// listLimit is how many entries are listed when the call does not say, maxList how
	// many at most.
	listLimit = 500
	maxList   = 5000
)

type listInput struct {
	Path      string `json:"path,omitempty" jsonschema:"the directory; the workspace by default"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"what is below it too, level by level; .git is not entered"`
	Glob      string `json:"glob,omitempty" jsonschema:"only what matches: *, ?, [a-z], {a,b}, ** for directories; without a slash the name alone is matched"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many entries; 500 by default"`
}

// Check refuses what no file can make right.
func (in listInput) Check() error {
	if in.Limit < 0 || in.Limit > maxList {
		return protocol.Errorf(protocol.CodeInvalidParams, "limit: 1 to %s", count(maxList))
	}
	if _, err := search.ParsePattern("glob", in.Glob); err != nil {
		return err
	}
	return checkGlob(in.Glob)
}

type listEntry struct {
	Path   string `json:"path"` // relative to the workspace
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	MTime  string `json:"mtime"`
	Target string `json:"target,omitempty"`
}

type listOutput struct {
	Path      string      `json:"path"`
	Entries   []listEntry `json:"entries"`
	Total     int         `json:"total"`
	Truncated bool        `json:"truncated"`
	Unread    []string    `json:"unreadable,omitempty"`
}

func (f *Files) addList(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name:        "list_files",
		Description: "List a directory: type, size, time of change, where links lead; hidden and ignored files too.",
		Annotations: protocol.Annotations{ReadOnly: true, Idempotent: true},
	}, f.list)
}

func (f *Files) list(ctx context.Context, call *capabilities.Call, in listInput) (out protocol.ToolOutput, err error) {
	chosen, err := newChooser(call.Session().Workspace(), in.Path, in.Glob)
	if err != nil {
		return out, err
	}
	fits, err := search.ParsePattern("glob", chosen.forLists())
	if err != nil {
		return out, err
	}
	if in.Path == "" {
		in.Path = "."
	}
	if in.Limit == 0 {
		in.Limit = listLimit
	}
	var k *walker
	err = again(func() error {
		p, err := call.Session().Workspace().Resolve(in.Path)
		if err != nil {
			return err
		}
		k = &walker{ctx: ctx, start: p, recursive: in.Recursive || fits.Deep(), fits: fits, most: in.Limit}
		return k.run()
	})
	if err != nil {
		return out, err
	}
	result := listOutput{Path: k.start.Display, Entries: []listEntry{}, Total: k.total, Truncated: k.total > len(k.found), Unread: k.unreadable()}
	var text bytes.Buffer
	for _, w := range k.found {
		e := entryOf(k.start, w)
		result.Entries = append(result.Entries, e)
		text.WriteString(e.line())
	}
	notes := k.notes(result)
	if k.total == 0 {
		notes += chosen.hint
	}
	shown, _ := f.fit(call, text.String(), len(notes))
	return output(result, strings.TrimSuffix(shown+notes, "\n")), nil
}

// entryOf describes what a walk has found.
func entryOf(start capabilities.Path, w walked) listEntry {
	e := listEntry{Path: below(start, w.rel), Type: kindOf(w.info.Mode()), Size: w.info.Size(), MTime: timeText(w.info.ModTime())}
	if w.link != "" {
		e.Target = capabilities.QuoteName(w.link)
	}
	return e
}

// below names what is at rel below start, as Path.Display does.
func below(start capabilities.Path, rel string) string {
	top := capabilities.UnquoteName(start.Display)
	return capabilities.QuoteName(path.Join(top, rel))
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// line is an entry for people: directories end with a slash.
func (e listEntry) line() string {
	name := e.Path
	switch {
	case e.Type == "directory":
		name += "/"
	case e.Target != "":
		name += " -> " + e.Target
	}
	size := count(e.Size)
	if e.Type != "file" {
		size = e.Type
	}
	return fmt.Sprintf("%12s  %s  %s\n", size, e.MTime[:16], name)
}

// notes is what is to be known beside the entries.
func (k *walker) notes(r listOutput) string {
	var b strings.Builder
	switch {
	case k.total == 0 && len(k.unread) == 0:
		fmt.Fprintf(&b, "[%s: nothing to list]\n", r.Path)
	case r.Truncated:
		fmt.Fprintf(&b, "[%s of %s entries; limit shows up to %s, glob chooses, path goes deeper]\n", count(len(r.Entries)), count(k.total), count(maxList))
	default:
		entries := "entries"
		if k.total == 1 {
			entries = "entry"
		}
		fmt.Fprintf(&b, "[%s %s]\n", count(k.total), entries)
	}
	k.notSeen(&b)
	return b.String()
}

// notSeen says where the walk has not been.
func (k *walker) notSeen(b *strings.Builder) {
	if len(k.private) > 0 {
		fmt.Fprintf(b, "[not entered: %s]\n", strings.Join(quoteNames(k.private, 5), ", "))
	}
	for i, u := range k.unread {
		if i == 5 {
			fmt.Fprintf(b, "[and %s more directories that cannot be read]\n", count(len(k.unread)-i))
			break
		}
		fmt.Fprintf(b, "[%s]\n", u)
	}
}

// unreadable are the first of the directories that could not be read, for a structured
// result.
func (k *walker) unreadable() []string { return k.unread[:min(len(k.unread), 20)] }

func quoteNames(names []string, most int) (all []string) {
	for i, n := range names {
		if i == most {
			return append(all, "…")
		}
		all = append(all, capabilities.QuoteName(n))
	}
	return all
}
