package git

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxListed is how many branches or files are in a result.
	maxListed = 1000
	// maxList is bytes of what git prints of them.
	maxList = 16 << 20
)

type branch struct {
	Name     string `json:"name"`
	Remote   bool   `json:"remote,omitempty"`
	Current  bool   `json:"current,omitempty"`
	Commit   string `json:"commit"`
	Upstream string `json:"upstream,omitempty"`
	Ahead    int    `json:"ahead,omitempty"`
	Behind   int    `json:"behind,omitempty"`
	Gone     bool   `json:"gone,omitempty"` // the upstream is not there
	Date     string `json:"date,omitempty"` // of the commit, RFC 3339
	Subject  string `json:"subject,omitempty"`
}

type branchesResult struct {
	Current   string   `json:"current"` // "" when HEAD is detached
	Commit    string   `json:"commit"`  // "" before the first one
	Detached  bool     `json:"detached"`
	Branches  []branch `json:"branches"`
	Count     int      `json:"count"`
	Truncated bool     `json:"truncated"`
}

const branchFormat = "%(HEAD)%00%(refname)%00%(objectname)%00%(upstream)%00%(upstream:track,nobracket)%00%(committerdate:iso-strict)%00%(contents:subject)%00%(symref)"

// branches lists the local branches, those of the remotes with -r, both with -a; arguments are patterns.
func (r *repository) branches(ctx context.Context, args *arguments) (protocol.ToolOutput, error) {
	prefixes := []string{"refs/heads/"}
	switch {
	case args.has("all"):
		prefixes = append(prefixes, "refs/remotes/")
	case args.has("remotes"):
		prefixes[0] = "refs/remotes/"
	}
	patterns := prefixes
	if len(args.plain)+len(args.paths) > 0 {
		patterns = nil
		for _, prefix := range prefixes {
			for _, name := range append(append([]string{}, args.plain...), args.paths...) {
				patterns = append(patterns, prefix+name)
			}
		}
	}
	found := branchesResult{Branches: []branch{}}
	head, err := r.ask(ctx, 4<<10, "symbolic-ref", "--quiet", "HEAD")
	switch {
	case err == nil:
		found.Current = shortRef(strings.TrimSpace(string(head)))
	case errors.Is(err, errGit):
		found.Detached = true
	default:
		return protocol.ToolOutput{}, err
	}
	commit, err := r.ask(ctx, 4<<10, "rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil && !errors.Is(err, errGit) {
		return protocol.ToolOutput{}, err
	}
	found.Commit = strings.TrimSpace(string(commit))
	text, err := r.ask(ctx, maxList, append([]string{"for-each-ref", "--format=" + branchFormat, "--"}, patterns...)...)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	for line := range strings.Lines(strings.ToValidUTF8(string(text), "\uFFFD")) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 8 || f[7] != "" { // origin/HEAD is another name of a branch
			continue
		}
		if found.Count++; found.Count > maxListed {
			found.Truncated = true
			continue
		}
		b := branch{Name: shortRef(f[1]), Remote: strings.HasPrefix(f[1], "refs/remotes/"), Current: f[0] == "*", Commit: f[2],
			Upstream: shortRef(f[3]), Gone: f[4] == "gone", Date: f[5], Subject: r.hide(f[6])}
		for part := range strings.SplitSeq(f[4], ", ") {
			if n, ok := strings.CutPrefix(part, "ahead "); ok {
				b.Ahead, _ = strconv.Atoi(n)
			} else if n, ok := strings.CutPrefix(part, "behind "); ok {
				b.Behind, _ = strconv.Atoi(n)
			}
		}
		found.Branches = append(found.Branches, b)
	}
	return protocol.ToolOutput{Content: protocol.Text(found.words(r.git.options.InlineBytes)).Content, Structured: found}, nil
}

func shortRef(name string) string {
	for _, prefix := range []string{"refs/heads/", "refs/remotes/"} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			return short
		}
	}
	return name
}

func (f branchesResult) words(limit int) string {
	var lines []string
	if f.Detached {
		lines = append(lines, "HEAD is detached at "+f.Commit)
	} else if f.Commit == "" {
		lines = append(lines, f.Current+" has no commit yet")
	}
	for _, b := range f.Branches {
		mark := "  "
		if b.Current {
			mark = "* "
		}
		line := mark + capabilities.QuoteName(b.Name) + " " + b.Commit[:min(10, len(b.Commit))]
		if b.Upstream != "" {
			line += " [" + b.Upstream
			switch {
			case b.Gone:
				line += ": gone"
			case b.Ahead > 0 || b.Behind > 0:
				line += fmt.Sprintf(": ahead %d, behind %d", b.Ahead, b.Behind)
			}
			line += "]"
		}
		lines = append(lines, line+" "+brief(b.Subject))
	}
	return list(lines, f.Count, "branches", "patterns in args", limit)
}

func brief(text string) string {
	if r := []rune(text); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return text
}

// list puts lines into a text of at most limit bytes and says what is missing.
func list(lines []string, count int, what, how string, limit int) string {
	if limit <= 0 {
		limit = protocol.DefaultInlineResult
	}
	limit = max(limit-1<<10, 2<<10)
	var b strings.Builder
	shown := 0
	for _, line := range lines {
		if b.Len()+len(line) >= limit {
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
		shown++
	}
	switch missing := max(count-shown, len(lines)-shown); {
	case missing > 0:
		fmt.Fprintf(&b, "[… %d of %d %s are not shown; %s show fewer]\n", missing, count, what, how)
	case len(lines) == 0:
		fmt.Fprintf(&b, "[no %s]\n", what)
	}
	return strings.ToValidUTF8(strings.ReplaceAll(b.String(), "\x00", "\uFFFD"), "\uFFFD")
}
