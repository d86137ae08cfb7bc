package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// maxSearched is how many files are looked at for what git may have waited for.
const maxSearched = 100_000

// readByName says whether git reads a file of the work tree because of its name.
func readByName(name string) bool { return slices.Contains(special, name) }

var special = []string{".gitignore", ".gitattributes", ".mailmap", ".gitmodules"}

// waits says whether to open such a file may wait for somebody else, for ever.
func waits(mode fs.FileMode) bool { return mode&(fs.ModeNamedPipe|fs.ModeDevice) != 0 }

// blocks is the refusal of a repository in which git would wait.
func (r *repository) blocks(path string) error {
	shown := path
	if rel, err := filepath.Rel(r.dir, path); err == nil && filepath.IsLocal(rel) {
		shown = rel
	}
	return protocol.Errorf(protocol.CodeConflict, "the repository is not used: %s is a named pipe or a device, for which git would wait without end. Remove it",
		capabilities.QuoteName(filepath.ToSlash(shown))).WithRetryable(false)
}

// checkTree looks at the files that git reads by their names, at the top of the work tree and on the way to the
// workspace's directory. Those further down are too many to be looked for in every call: see waitedFor.
func (r *repository) checkTree() error {
	if r.top == "" {
		return nil
	}
	for dir := r.dir; below(r.top, dir); dir = filepath.Dir(dir) {
		for _, name := range special {
			path := filepath.Join(dir, name)
			info, err := os.Lstat(path)
			if err != nil {
				continue
			}
			if info.Mode()&fs.ModeSymlink != 0 {
				// The others git does not follow.
				if name == ".gitmodules" && !inside(r.workspace, path) {
					return r.outside("what a link in it leads to", path)
				}
				if info, err = os.Stat(path); err != nil {
					continue
				}
			}
			if waits(info.Mode()) {
				return r.blocks(path)
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return nil
}

var errEnough = errors.New("enough")

// waitedFor finds the file that a git that did not end may have waited for; "" is none that was found. What git
// reads by its name is more likely than what else is there.
func (r *repository) waitedFor() string {
	top := r.top
	if top == "" {
		top = r.dir
	}
	found, n := "", 0
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		n++
		switch {
		case n > maxSearched:
			return errEnough
		case err != nil || !waits(d.Type()):
			return nil
		case readByName(d.Name()):
			found = path
			return errEnough
		case found == "":
			found = path
		}
		return nil
	})
	return found
}
