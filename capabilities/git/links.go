package git

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// role is what git takes a directory of a repository for. It says which of its entries matter.
type role int

const (
	whole        role = iota // all that is in it, at any depth
	gitDirectory             // of the work tree, of the repository, of a submodule
	objectStore              // all but what is in the directories of loose objects
	packs                    // and the index over several of them
	reftable                 // tables of branches, and the list of them
	worktrees                // the directories of linked work trees
	worktree                 // one of them
	modules                  // the directories of submodules, under names that may have slashes in them
)

var looseObjects = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{2}$`)
})

// of is what an entry is, in a directory of this role, and whether there is more in it to be looked at. What is
// in a directory of loose objects is not: who could name an object outside knows it, and there may be hundreds
// of thousands. Nor is what other programs keep there, which git never reads.
func (as role) of(name string) (child role, enter bool) {
	switch {
	case as == objectStore && looseObjects().MatchString(name):
		return whole, false
	case as == objectStore && name == "pack", as == packs:
		return packs, true
	case as == worktree && name == "reftable":
		return reftable, true
	case as == modules:
		return modules, true
	case as == worktrees:
		return worktree, true
	case as != gitDirectory:
		return whole, true
	}
	switch name {
	case "objects":
		return objectStore, true
	case "reftable":
		return reftable, true
	case "modules":
		return modules, true
	case "worktrees":
		return worktrees, true
	case "lfs", "annex":
		return whole, false
	}
	return whole, true
}

// walk looks through a repository for what leads out of the roots. It belongs to one goroutine.
type walk struct {
	ctx  context.Context
	r    *repository
	seen map[place]bool
}

type place struct {
	dir     string // without links
	as      role
	written bool
}

// checkParts refuses a repository of which a part is outside: what a link in it leads to, wherever in it,
// and objects that are taken from elsewhere. Links that stay inside are followed, since git follows them and
// what is behind them may lead out. A named pipe is refused too: git would wait for it.
func (r *repository) checkParts(ctx context.Context) error {
	w := walk{ctx, r, map[place]bool{}}
	for _, dir := range []string{r.gitDir, r.common} {
		if err := w.directory(place{dir, gitDirectory, true}); err != nil {
			return err
		}
	}
	return w.objects(r.common)
}

func (w *walk) directory(at place) error {
	if w.seen[at] {
		return nil
	}
	w.seen[at] = true
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if !time.Now().Before(w.r.deadline) {
		return protocol.Errorf(protocol.CodeTimeout, "the repository could not be looked through within %v", w.r.git.options.Timeout).WithRetryable(false)
	}
	entries, err := entriesOf(at.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		// git can open what is in a directory that cannot be read, when it knows the name.
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: its directory %s cannot be read, and what is in it may lead out of the workspace", capabilities.QuoteName(at.dir))
	}
	as := at.as
	if as == modules {
		for _, e := range entries {
			if e.Name() == "HEAD" {
				as = gitDirectory
			}
		}
	}
	for _, e := range entries {
		if err := w.entry(at, as, e); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf is what is in a directory, in no order: there may be very much.
func entriesOf(dir string) ([]fs.DirEntry, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.ReadDir(-1)
}

func (w *walk) entry(at place, as role, e fs.DirEntry) error {
	path, mode := filepath.Join(at.dir, e.Name()), e.Type()
	// What is only read may be in a root that is read-only.
	written := at.written && (as != gitDirectory || e.Name() != "hooks" && e.Name() != "info")
	if mode&fs.ModeSymlink != 0 {
		target, err := w.follow(path, written)
		if err != nil {
			return err
		}
		info, err := os.Lstat(target)
		if err != nil {
			return nil // to be made, inside
		}
		path, mode = target, info.Mode().Type()
	}
	child, enter := as.of(e.Name())
	switch {
	case mode.IsDir() && enter:
		return w.directory(place{path, child, written})
	case waits(mode):
		return w.r.blocks(path)
	case e.Name() == "commondir" && (as == gitDirectory || as == worktree):
		return w.commonDir(at.dir, path)
	case as == packs && strings.HasPrefix(e.Name(), "multi-pack-index"):
		return w.packNames(path)
	case as == reftable && e.Name() == "tables.list":
		return w.tables(path)
	}
	return nil
}

// follow is what a link leads to, inside the roots.
func (w *walk) follow(link string, written bool) (string, error) {
	p, err := w.r.workspace.Resolve(capabilities.QuoteName(link))
	if err != nil {
		return "", w.r.outside("what a link in it leads to", link)
	}
	if written && w.r.writes {
		if _, err := w.r.workspace.ResolveWrite(capabilities.QuoteName(p.Abs)); err != nil {
			return "", err
		}
	}
	return p.Abs, nil
}

// commonDir looks at the file in which a work tree or a submodule says whose its branches are: git
// reads those of all of them.
func (w *walk) commonDir(dir, path string) error {
	text, err := readSmall(path, maxPointer)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: %s cannot be read", capabilities.QuoteName(path))
	}
	to := strings.TrimRight(text, "\r\n")
	if to == "" {
		return nil
	}
	common, err := w.r.real("the repository that a work tree of it belongs to", beside(dir, to))
	if err != nil {
		return err
	}
	if err := w.directory(place{common, gitDirectory, true}); err != nil {
		return err
	}
	return w.objects(common)
}

// objects looks where the objects of a repository come from. What is relative begins where they really are.
func (w *walk) objects(common string) error {
	objects, err := w.r.real("where its objects are", filepath.Join(common, "objects"))
	if err != nil {
		return err
	}
	return w.alternates(objects, 0)
}

var errTooLong = errors.New("it is too long")

// readSmall reads a regular file of at most most bytes.
func readSmall(path string, most int64) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", errTooLong
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = errTooLong
	}
	return string(text), err
}

// beside is a path that is written in a file of the directory dir. It is not made shorter: what a ".." behind a
// link means is the file system's to say.
func beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + string(filepath.Separator) + path
}
