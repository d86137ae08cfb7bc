package capabilities

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agent-executor/executor/protocol"
)

// errSwapped: between Resolve and now a directory on the way was replaced. To
// resolve again gives the true answer.
var errSwapped = protocol.Errorf(protocol.CodeConflict, "a directory on the way was replaced at the same moment; try again").WithRetryable(true)

// OpenParent opens the directory that p is in and names p in it. No symbolic
// link is followed on the way, so what is done through the handle is done exactly
// where Resolve looked, or not at all; a directory replaced meanwhile is a
// conflict, and resolving again helps. The caller closes the handle. For a root
// itself the handle is the root and the name ".".
func (p Path) OpenParent() (dir *os.Root, name string, err error) {
	if p.Rel == "." {
		dir, err = p.Root.OpenRoot(".")
		return dir, ".", p.fault(err)
	}
	dir, err = openDir(p.Root, filepath.Dir(p.Rel))
	return dir, filepath.Base(p.Rel), p.fault(err)
}

// OpenDir opens p itself, which must be a directory, in the same way. The caller
// closes the handle.
func (p Path) OpenDir() (*os.Root, error) {
	dir, err := openDir(p.Root, p.Rel)
	if errors.Is(err, syscall.ENOTDIR) {
		if info, other := p.Root.Lstat(p.Rel); other == nil && info.Mode()&(fs.ModeDir|fs.ModeSymlink) == 0 {
			return nil, protocol.Errorf(protocol.CodeNotFound, "%s is not a directory", p.Display)
		}
	}
	return dir, p.fault(err)
}

func (p Path) fault(err error) error {
	if err == nil {
		return nil
	}
	return FileError(err, p.Display)
}

// openDir goes down one real directory at a time. os.Root alone keeps inside the
// root, but it follows links there, and a link can lead from a writable place to
// a nested read-only root.
func openDir(root *os.Root, rel string) (*os.Root, error) {
	way := steps(rel)
	if len(way) == 0 {
		return root.OpenRoot(".")
	}
	cur := root
	for i, step := range way {
		next, err := openStep(cur, step)
		if i > 0 {
			cur.Close()
		}
		if err != nil {
			return nil, err
		}
		cur = next
	}
	return cur, nil
}

// OpenChild opens the directory name in dir, one component, without following a link:
// how a tree is walked by handles. The caller closes it. The error is one of the file
// system, for FileError.
func OpenChild(dir *os.Root, name string) (*os.Root, error) { return openStep(dir, name) }

// openStep opens a child that is a directory and no link: what was opened must be
// what the name was an instant before.
func openStep(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, errSwapped
	case !before.IsDir():
		return nil, syscall.ENOTDIR
	}
	// With the dot behind it the name itself is opened as a directory only: a FIFO
	// put there meanwhile would block otherwise.
	child, err := dir.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	after, err := child.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = errSwapped
	}
	if err != nil {
		child.Close()
		return nil, err
	}
	return child, nil
}

// FileError turns an error of the file system into the *protocol.Error that says
// it about the path display; a *protocol.Error stays what it is.
func FileError(err error, display string) *protocol.Error {
	var known *protocol.Error
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, &known):
		return known
	case is(syscall.ENOTDIR):
		return protocol.Errorf(protocol.CodeNotFound, "%s: a part of the path is not a directory", display)
	case is(fs.ErrNotExist):
		return protocol.Errorf(protocol.CodeNotFound, "%s does not exist", display)
	case is(fs.ErrExist):
		return protocol.Errorf(protocol.CodeConflict, "%s already exists", display)
	case is(syscall.EROFS):
		return protocol.Errorf(protocol.CodeForbidden, "%s is on a read-only file system", display)
	case is(fs.ErrPermission):
		return protocol.Errorf(protocol.CodeForbidden, "%s: permission denied", display)
	case isDiskFull(err):
		return protocol.Errorf(protocol.CodeResourceUnavailable, "%s: no space left on the disk", display)
	case is(syscall.ELOOP):
		return protocol.Errorf(protocol.CodeNotFound, "%s: too many levels of symbolic links", display)
	case is(syscall.ENAMETOOLONG):
		return protocol.Errorf(protocol.CodeInvalidParams, "%s: the name is too long", display)
	case is(fs.ErrClosed):
		return protocol.Errorf(protocol.CodeResourceUnavailable, "%s: the workspace is closed", display).
			WithReason(protocol.ReasonWorkspaceUnavailable)
	case escapes(err):
		return protocol.Errorf(protocol.CodeForbidden, "%s leads outside the workspace", display).
			WithReason(protocol.ReasonWorkspaceBoundary)
	}
	return protocol.Errorf(protocol.CodeInternalError, "%s: %v", display, cause(err))
}

// escapes knows os.Root's refusal, which has no exported name, by its text.
func escapes(err error) bool {
	return strings.Contains(err.Error(), "path escapes from parent")
}

// cause drops the operation and the name that os puts round an error: display
// says the name as the caller knows it.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
