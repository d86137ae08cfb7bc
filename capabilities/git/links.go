package git

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agent-executor/executor/protocol"
)

const (
	// maxAlternates is how deep object directories may lead to others. git stops at 5.
	maxAlternates = 5
	// maxAlternatesFile is bytes of a list of them.
	maxAlternatesFile = 64 << 10
)

// checkParts looks for links in the repository that lead out of the roots, and for objects that are taken from
// elsewhere. A loose object's directory is looked at and not what is in it: who could name an object outside
// knows it.
func (r *repository) checkParts() error {
	for _, dir := range []string{r.gitDir, r.common} {
		for _, part := range []struct {
			name string
			deep bool
		}{
			{".", false}, {"refs", true}, {"logs", true}, {"info", true}, {"objects", false}, {"objects/pack", false}, {"objects/info", true},
			{"hooks", false}, {"reftable", false}, {"worktrees", false}, {"modules", false},
		} {
			if err := r.checkLinks(filepath.Join(dir, filepath.FromSlash(part.name)), part.deep); err != nil {
				return err
			}
		}
		if r.gitDir == r.common {
			break
		}
	}
	return r.checkAlternates(filepath.Join(r.common, "objects"), 0)
}

// checkLinks looks at the entries of a directory, and at theirs.
func (r *repository) checkLinks(dir string, deep bool) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // git will say what is wrong with it
		case d.Type()&fs.ModeSymlink != 0:
			if !inside(r.workspace, path) {
				return r.outside("what a link in it leads to", path)
			}
		case d.IsDir() && path != dir && !deep:
			return filepath.SkipDir
		}
		return nil
	})
	return err
}

// checkAlternates refuses objects from outside.
func (r *repository) checkAlternates(objects string, depth int) error {
	if depth > maxAlternates {
		return nil
	}
	path := filepath.Join(objects, "info", "alternates")
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: objects/info/alternates cannot be read")
		}
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: objects/info/alternates cannot be read")
	}
	defer file.Close()
	if info.Size() > maxAlternatesFile {
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: objects/info/alternates has more than %d bytes", maxAlternatesFile)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxAlternatesFile))
	if err != nil {
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: objects/info/alternates cannot be read")
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' {
			if line, err = strconv.Unquote(line); err != nil {
				return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: a line of objects/info/alternates cannot be understood")
			}
		}
		other := line
		if !filepath.IsAbs(other) {
			other = filepath.Join(objects, other)
		}
		if !inside(r.workspace, other) {
			return r.outside("the objects it takes from another", strings.TrimSuffix(other, "/"))
		}
		if err := r.checkLinks(other, false); err != nil {
			return err
		}
		if err := r.checkAlternates(other, depth+1); err != nil {
			return err
		}
	}
	return nil
}
