package files

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/search"
	"github.com/agent-executor/executor/protocol"
)

const (
	// grepLimit is how many matches grep shows when the call does not say.
	grepLimit = 100
	// maxGrepContext is how many lines round a match a call may ask for.
	maxGrepContext = 100
	// grepLine is how many bytes of a line grep shows.
	grepLine = 400
)

type grepInput struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression in the syntax of RE2; special characters of a literal text are escaped with a backslash"`
	Path       string `json:"path,omitempty" jsonschema:"the file or directory to search; the workspace when left out"`
	Glob       string `json:"glob,omitempty" jsonschema:"only files that this shell pattern matches, as *.go, src/**/*.{ts,tsx} (relative to path) or !*_test.go for the others"`
	Mode       string `json:"mode,omitempty" jsonschema:"content: the matching lines (default); files: the files that have one; count: how many each file has"`
	Context    int    `json:"context,omitempty" jsonschema:"how many lines to show before and after each match"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"upper and lower case are the same"`
	Multiline  bool   `json:"multiline,omitempty" jsonschema:"a match may be longer than a line: \\n and [\\s\\S] match newlines"`
	Limit      int    `json:"limit,omitempty" jsonschema:"how many matching lines, or files in the other modes, to show"`
	Hidden     bool   `json:"hidden,omitempty" jsonschema:"also names that begin with a dot"`
	NoIgnore   bool   `json:"no_ignore,omitempty" jsonschema:"also what .gitignore and .ignore leave out"`
}

// Check refuses what no tree can make right.
func (in grepInput) Check() error {
	switch search.Mode(in.Mode) {
	case "", search.ModeContent, search.ModeFiles, search.ModeCount:
	default:
		return protocol.Errorf(protocol.CodeInvalidParams, "mode: must be content, files or count, not %s", named(in.Mode))
	}
	if in.Context < 0 || in.Context > maxGrepContext {
		return protocol.Errorf(protocol.CodeInvalidParams, "context: must be between 0 and %d", maxGrepContext)
	}
	if in.Glob == "!" {
		return protocol.Errorf(protocol.CodeInvalidParams, "glob: ! leaves out what the pattern behind it matches, and there is none")
	}
	if err := checkGlob(strings.TrimPrefix(in.Glob, "!")); err != nil {
		return err
	}
	return checkLimit(in.Limit)
}

// grepOutput is the structured result.
type grepOutput struct {
	Matches       []grepMatch `json:"matches"`
	Count         int         `json:"count"`         // matching lines in all files; in mode files those with a match
	FilesMatched  int         `json:"files_matched"` // also those that are not in Matches
	FilesSearched int         `json:"files_searched"`
	Truncated     bool        `json:"truncated"`           // there are more than Matches has
	LinesCut      int         `json:"lines_cut,omitempty"` // lines in Matches of which only a part is there, those around included
	Skipped       *skipped    `json:"skipped,omitempty"`
}

// grepMatch is a match in mode content, a file with its path alone in mode files, and with
// its count in mode count.
type grepMatch struct {
	Path   string   `json:"path"`
	Line   int      `json:"line,omitempty"`   // from 1
	Column int      `json:"column,omitempty"` // in bytes, from 1
	Text   *string  `json:"text,omitempty"`   // always there in mode content
	Cut    bool     `json:"cut,omitempty"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	Around bool     `json:"around_cut,omitempty"` // a line of Before or After is cut
	Count  int      `json:"count,omitempty"`      // matching lines
}

func (f *Files) addGrep(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "grep",
		Description: fmt.Sprintf("Find lines by a regular expression, in order of the files' paths, %s by default. Binary files (with a NUL) are skipped, "+
			"long lines are cut round the match. ", count(grepLimit)) + leftOutNote,
		OutputSchema: capabilities.OutputSchema[grepOutput](),
		Annotations:  protocol.Annotations{ReadOnly: true, Idempotent: true},
	}, f.grep)
}

func (f *Files) grep(ctx context.Context, call *capabilities.Call, in grepInput) (protocol.ToolOutput, error) {
	mode := search.Mode(in.Mode)
	if mode == "" {
		mode = search.ModeContent
	}
	limit := in.Limit
	if limit == 0 {
		limit = grepLimit
	}
	w := call.Session().Workspace()
	var chosen chooser
	glob, not := strings.CutPrefix(in.Glob, "!")
	if _, named := fileAt(w, in.Path); glob != "" && !named { // a file that is named is meant
		var err error
		if chosen, err = newChooser(w, in.Path, glob); err != nil {
			return protocol.ToolOutput{}, err
		}
		if glob = chosen.forGrep(); not {
			glob = "!" + glob
		}
		in.Glob = glob
	}
	found, err := search.Grep(ctx, w, search.GrepOptions{
		Pattern: in.Pattern, Path: in.Path, Glob: in.Glob, Mode: mode, Context: in.Context, IgnoreCase: in.IgnoreCase,
		Multiline: in.Multiline, Hidden: in.Hidden, NoIgnore: in.NoIgnore, Limit: limit, MaxLine: grepLine, MaxText: f.room(),
	})
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	p := grepPage{room: f.room(), context: in.Context, out: grepOutput{
		Matches: []grepMatch{}, Count: found.Matches, FilesMatched: found.Matched, FilesSearched: found.Searched, Skipped: skippedOf(found.Skipped),
	}}
	unit, all := "matching line", found.Matches
	if mode != search.ModeContent {
		unit, all = "file", found.Matched
	}
	if mode == search.ModeFiles {
		p.out.Count = found.Matched
	}
	for _, file := range found.Files {
		if !p.add(mode, file) {
			break
		}
	}
	shown := len(p.out.Matches)
	p.out.Truncated = shown < all
	text := &p.text
	searched := plural(int64(found.Searched), "file") + " searched"
	switch {
	case all == 0:
		fmt.Fprintf(text, "[no match; %s]\n", searched)
		if found.Searched == 0 && !not {
			text.WriteString(chosen.hint)
		}
		text.WriteString(dialectHint(in.Pattern))
	case p.out.Truncated:
		how := "limit shows more, "
		if shown < limit {
			how = ""
		}
		fmt.Fprintf(text, "[%s of %s shown, the matches are in %s; %s; %sa narrower path, glob or pattern shows others]\n",
			count(shown), plural(int64(all), unit), plural(int64(found.Matched), "file"), searched, how)
	case mode == search.ModeContent:
		fmt.Fprintf(text, "[%s in %s; %s]\n", plural(int64(all), unit), plural(int64(found.Matched), "file"), searched)
	default:
		fmt.Fprintf(text, "[%s with a match; %s]\n", plural(int64(all), unit), searched)
	}
	if p.out.LinesCut > 0 {
		fmt.Fprintf(text, "[%s cut to %d bytes%s; read with full shows the whole]\n", plural(int64(p.out.LinesCut), "line"), grepLine, p.round)
	}
	if found.Long > 0 {
		fmt.Fprintf(text, "[%s of more than 2 MiB without a newline searched apart]\n", plural(int64(found.Long), "piece"))
	}
	leftOut(text, found.Skipped)
	if found.Skipped.Binary > 0 {
		if p, named := fileAt(w, in.Path); named {
			fmt.Fprintf(text, "[%s is taken for binary, for it has NUL characters: the command `grep -a PATTERN FILE` searches it, `tr -d '\\000' <FILE` makes a text of it]\n", p.Display)
		}
	}
	return output(p.out, strings.TrimSuffix(text.String(), "\n")), nil
}

// dialectHint is for a pattern in the syntax of other programs that is another one in RE2.
func dialectHint(pattern string) string {
	switch {
	case strings.Contains(pattern, `\|`):
		return "[\\| is the character itself; alternatives are written a|b]\n"
	case strings.Contains(pattern, `\<`), strings.Contains(pattern, `\>`):
		return "[\\< and \\> are the characters themselves; the edge of a word is \\b]\n"
	}
	return ""
}

// grepPage writes results as ripgrep does for a terminal: the path, its lines below it.
type grepPage struct {
	text    strings.Builder
	out     grepOutput
	room    int    // bytes of text
	context int    // lines round each match
	round   string // where lines are cut, if a match is in one of them
}

// add adds a file as far as there is room; false says that there was not enough.
func (p *grepPage) add(mode search.Mode, f search.File) bool {
	switch mode {
	case search.ModeFiles:
		return p.write(f.Path+"\n", &grepMatch{Path: f.Path})
	case search.ModeCount:
		return p.write(fmt.Sprintf("%s:%d\n", f.Path, f.Matches), &grepMatch{Path: f.Path, Count: f.Matches})
	}
	heading := f.Path + "\n"
	if p.text.Len() > 0 {
		heading = "\n" + heading
	}
	// A match is written with what stands before it, or not at all.
	group := heading
	told := 0 // rows before it are in LinesCut if they are cut
	for i, row := range f.Rows {
		if p.context > 0 && i > 0 && row.Line > behind(f.Rows[i-1]) {
			group += "--\n"
		}
		if row.Column == 0 {
			group += fmt.Sprintf("%d-%s\n", row.Line, row.Text)
			continue
		}
		var lines strings.Builder
		n := row.Line
		for line := range strings.SplitSeq(row.Text, "\n") {
			fmt.Fprintf(&lines, "%d:%s\n", n, line)
			n++
		}
		m := &grepMatch{Path: f.Path, Line: row.Line, Column: row.Column, Text: &row.Text, Cut: row.Cut}
		m.Before, m.After = around(f.Rows, i, p.context)
		near := f.Rows[i-len(m.Before) : i+1+len(m.After)]
		m.Around = slices.ContainsFunc(near, func(r search.Row) bool { return r.Cut && r.Column == 0 })
		if !p.write(group+lines.String(), m) {
			if len(p.out.Matches) == 0 { // at least the line itself
				p.write(heading+lines.String(), m)
				p.tell(near)
			}
			return false
		}
		group = ""
		p.tell(f.Rows[max(told, i-len(m.Before)) : i+1+len(m.After)])
		told = i + 1 + len(m.After)
	}
	return p.write(group, nil)
}

// tell counts those of the rows that are cut.
func (p *grepPage) tell(rows []search.Row) {
	for _, r := range rows {
		if !r.Cut {
			continue
		}
		p.out.LinesCut++
		if r.Column > 0 {
			p.round = " round the match"
		}
	}
}

// write adds text and a match when there is room for the text.
func (p *grepPage) write(s string, match *grepMatch) bool {
	if p.text.Len()+len(s) > p.room {
		return false
	}
	p.text.WriteString(s)
	if match != nil {
		p.out.Matches = append(p.out.Matches, *match)
	}
	return true
}

// behind is the number of the line behind a row.
func behind(r search.Row) int { return r.Line + strings.Count(r.Text, "\n") + 1 }

// around returns up to n lines that stand before and behind rows[i] in the file.
func around(rows []search.Row, i, n int) (before, after []string) {
	for j := i - 1; j >= 0 && len(before) < n && rows[j].Column == 0 && behind(rows[j]) == rows[j+1].Line; j-- {
		before = append(before, rows[j].Text)
	}
	slices.Reverse(before)
	for j := i + 1; j < len(rows) && len(after) < n && rows[j].Column == 0 && behind(rows[j-1]) == rows[j].Line; j++ {
		after = append(after, rows[j].Text)
	}
	return before, after
}
