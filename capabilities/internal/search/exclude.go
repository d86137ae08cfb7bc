package search

import (
	"io"
	"path/filepath"
	"strings"
)

// maxPointer bounds a file that says where something of a repository is.
const maxPointer = 16 << 10

// exclude returns the rules of a repository that only this clone has: info/exclude of the
// .git in d, which is path below the root. Where .git is a file, in a linked worktree and in a
// submodule, they are those of the repository that it names, if that is in the workspace.
func (s *start) exclude(d dir, path string) *ruleList {
	if k, _, err := d.look(".git"); err != nil || k == kindFile {
		return s.linkedExclude(d, path)
	}
	for _, name := range []string{".git", "info"} {
		sub, err := d.open(name)
		if err != nil {
			return nil
		}
		defer sub.close()
		d = sub
	}
	return readRules(d, "exclude")
}

func (s *start) linkedExclude(d dir, path string) *ruleList {
	f, err := d.file(".git")
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPointer))
	where, ok := strings.CutPrefix(string(text), "gitdir:")
	if err != nil || !ok {
		return nil
	}
	repository := absolute(where, filepath.Join(s.root, filepath.FromSlash(path)))
	if common := s.text(filepath.Join(repository, "commondir"), maxPointer); common != "" {
		repository = absolute(common, repository)
	}
	return listOf(s.text(filepath.Join(repository, "info", "exclude"), maxIgnoreBytes))
}

// absolute is the path in a line of one of git's files, which may be relative to dir.
func absolute(line, dir string) string {
	path := strings.TrimSpace(line)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// text reads a file of the workspace; "" when there is none that may be read.
func (s *start) text(path string, most int64) string {
	at, err := open(s.in, path, true)
	if err != nil {
		return ""
	}
	defer at.close()
	if at.file == "" {
		return ""
	}
	f, err := at.dir.file(at.file)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(text)
}
