package git

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

type changedFile struct {
	Path string `json:"path"`
	// Status is added, modified, deleted, renamed, copied, type_changed, unmerged or untracked.
	Status   string `json:"status"`
	From     string `json:"from,omitempty"`     // of what was renamed or copied
	Staged   bool   `json:"staged,omitempty"`   // it differs between HEAD and the index
	Unstaged bool   `json:"unstaged,omitempty"` // and between the index and the work tree

	gone bool // it is in the index, was not in HEAD, and is not in the work tree
}

type changedResult struct {
	Files     []changedFile `json:"files"`
	Count     int           `json:"count"`
	Truncated bool          `json:"truncated"`
}

var statusWords = map[byte]string{
	'A': "added", 'M': "modified", 'D': "deleted", 'R': "renamed", 'C': "copied", 'T': "type_changed", 'U': "unmerged",
	'?': "untracked", 'X': "unknown", 'B': "modified",
}

// changedFiles lists what differs: the work tree from HEAD; with --staged the index from HEAD; with revisions
// the one from the other.
func (r *repository) changedFiles(ctx context.Context, args *arguments) (protocol.ToolOutput, error) {
	found := changedResult{Files: []changedFile{}}
	add := func(f changedFile) {
		if found.Count++; found.Count > maxListed {
			found.Truncated = true
			return
		}
		f.Path = r.shown(f.Path)
		if f.From != "" {
			f.From = r.shown(f.From)
		}
		found.Files = append(found.Files, f)
	}
	var err error
	if len(args.before) == 0 {
		argv := append([]string{"status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-ahead-behind", "--"}, args.paths...)
		err = r.each(ctx, statusParser(add), argv...)
	} else {
		argv := append([]string{"diff", "--name-status", "-z", "-M", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}, args.before...)
		argv = append(append(argv, "--"), args.paths...)
		staged := (args.has("cached") || args.has("staged")) && (len(args.plain) == 0 || slices.Equal(args.plain, []string{"HEAD"}))
		err = r.each(ctx, diffParser(func(f changedFile) {
			f.Staged = staged
			add(f)
		}), argv...)
	}
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	return protocol.ToolOutput{Content: protocol.Text(found.words(r.git.options.InlineBytes)).Content, Structured: found}, nil
}

// shown is a path from the top of the work tree as the other tools take it: from the workspace's directory.
func (r *repository) shown(path string) string {
	abs := filepath.Join(r.top, filepath.FromSlash(path))
	if rel, err := filepath.Rel(r.dir, abs); err == nil {
		abs = rel
	}
	return capabilities.QuoteName(filepath.ToSlash(abs))
}

// statusParser reads the pieces of `git status --porcelain=v2 -z`.
func statusParser(add func(changedFile)) func(string) {
	var renamed *changedFile // waits for where it came from
	return func(item string) {
		if renamed != nil {
			renamed.From = item
			add(*renamed)
			renamed = nil
			return
		}
		kind, rest, _ := strings.Cut(item, " ")
		f := changedFile{}
		fields := map[string]int{"1": 8, "2": 9, "u": 10}[kind]
		switch {
		case kind == "?":
			add(changedFile{Path: rest, Status: "untracked"})
			return
		case fields == 0 || len(rest) < 2:
			return
		}
		parts := strings.SplitN(rest, " ", fields)
		if len(parts) != fields {
			return
		}
		f.Path = parts[fields-1]
		index, tree := rest[0], rest[1]
		f.Staged, f.Unstaged = index != '.', tree != '.'
		f.gone = tree == 'D' && index != '.'
		switch {
		case kind == "u":
			f.Status, f.Staged, f.Unstaged = "unmerged", false, true
		case tree == 'D' && (index == '.' || index == 'M' || index == 'T'):
			f.Status = "deleted"
		case index != '.':
			f.Status = statusWords[index]
		default:
			f.Status = statusWords[tree]
		}
		if kind == "2" {
			renamed = &f
			return
		}
		add(f)
	}
}

// diffParser reads the pieces of `git diff --name-status -z`.
func diffParser(add func(changedFile)) func(string) {
	var f changedFile
	missing := 0 // paths that follow
	return func(item string) {
		switch {
		case missing == 0 && item != "":
			f = changedFile{Status: statusWords[item[0]]}
			missing = 1
			if item[0] == 'R' || item[0] == 'C' {
				missing = 2
			}
		case missing == 2:
			f.From = item
			missing = 1
		case missing == 1:
			f.Path = item
			missing = 0
			add(f)
		}
	}
}

func (f changedResult) words(limit int) string {
	var lines []string
	for _, c := range f.Files {
		line := c.Status + "  " + c.Path
		if c.From != "" {
			line = c.Status + "  " + c.From + " -> " + c.Path
		}
		if c.gone && c.Status != "deleted" {
			line += "  (staged, and deleted since)"
		} else if c.Staged && c.Unstaged {
			line += "  (staged, and changed since)"
		} else if c.Staged {
			line += "  (staged)"
		}
		lines = append(lines, line)
	}
	return list(lines, f.Count, "changed files", "paths after --", limit)
}
