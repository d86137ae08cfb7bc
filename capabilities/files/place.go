package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// place is a name in a directory that is open, for verbs that deal with whole files
// and directories: mkdir, move, copy, delete.
type place struct {
	p    capabilities.Path
	dir  *os.Root
	name string
}

// openPlace opens the directory of p. The caller closes the place.
func openPlace(p capabilities.Path) (place, error) {
	dir, name, err := p.OpenParent()
	if errors.Is(err, protocol.ErrNotFound) {
		err = protocol.Errorf(protocol.CodeNotFound, "the directory of %s does not exist: mkdir makes it", p.Display)
	}
	return place{p: p, dir: dir, name: name}, err
}

// namesDir reports that a path can only be that of a directory.
func namesDir(path string) bool {
	path = strings.TrimSuffix(capabilities.UnquoteName(path), ".")
	return path != "" && os.IsPathSeparator(path[len(path)-1])
}

// errNamesDir refuses such a path for a file. member is the input's.
func errNamesDir(member, path string) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidParams, "%s names a directory: %s; name the file itself", member, named(path))
}

// maxNamed is how many bytes of something in an input are repeated in a message.
const maxNamed = 400

// named is a path or a pattern of an input for a message.
func named(path string) string {
	path = capabilities.UnquoteName(path)
	if len(path) <= maxNamed {
		return capabilities.QuoteName(path)
	}
	return capabilities.QuoteName(string(wholeRunes([]byte(path[:maxNamed])))) + "…"
}

func (l place) close() { l.dir.Close() }

// lockedPlace opens the directory of p and takes the lock of the name and looks what is
// there, nil for nothing. The caller gives all back with release.
func (f *Files) lockedPlace(ctx context.Context, p capabilities.Path) (at place, info fs.FileInfo, release func(), err error) {
	at, err = openPlace(p)
	if err != nil {
		return at, nil, nil, err
	}
	unlock, err := f.locks.acquire(ctx, at.key())
	if err != nil {
		at.close()
		return at, nil, nil, err
	}
	release = func() { unlock(); at.close() }
	if info, err = at.lstat(); err != nil {
		release()
		return at, nil, nil, err
	}
	return at, info, release, nil
}

func (l place) key() string { return fileKey(l.dir, l.name, l.p) }

func (l place) fault(err error) error { return fault(err, l.p) }

// fault words an error of the file system about p.
func fault(err error, p capabilities.Path) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case isBusy(err):
		return protocol.Errorf(protocol.CodeConflict, "%s is a mount point or in use by the system", p.Display)
	case isNotEmpty(err):
		return protocol.Errorf(protocol.CodeConflict, "%s is a directory that is not empty", p.Display)
	}
	return capabilities.FileError(err, p.Display)
}

// lstat looks at what is there, nil for nothing.
func (l place) lstat() (fs.FileInfo, error) {
	info, err := l.dir.Lstat(l.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, l.fault(err)
}

// notRoot refuses a root and what holds one.
func notRoot(w *capabilities.Workspace, p capabilities.Path, verb string) error {
	root, ok := w.HoldsRoot(p)
	switch {
	case !ok:
		return nil
	case p.Rel == ".":
		return protocol.Errorf(protocol.CodeForbidden, "%s is a root of the workspace, which is not %s", p.Display, verb).
			WithReason(protocol.ReasonWorkspaceBoundary)
	}
	return protocol.Errorf(protocol.CodeForbidden, "%s holds %s, a root of the workspace, and is not %s", p.Display, capabilities.QuoteName(root.Path), verb).
		WithReason(protocol.ReasonWorkspaceBoundary)
}

// inside: one is other or below it.
func inside(one, other capabilities.Path) bool {
	_, ok := cutDir(one.Abs, other.Abs)
	return ok
}

// entries reads a directory in portions and calls f for each entry, in no order.
func entries(ctx context.Context, dir *os.Root, f func(fs.DirEntry) error) error {
	handle, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer handle.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		some, err := handle.ReadDir(1024)
		for _, e := range some {
			if err := f(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// enter opens a directory below dir for a walk; a mount point and a root under
// another name are not entered.
func enter(w *capabilities.Workspace, dir *os.Root, name string) (child *os.Root, err error) {
	above, err := dir.Stat(".")
	if err != nil {
		return nil, err
	}
	child, err = capabilities.OpenChild(dir, name)
	if err != nil {
		return nil, err
	}
	info, err := child.Stat(".")
	if err == nil && device(info) != device(above) {
		err = errMountPoint
	}
	if err == nil && w.IsRoot(info) {
		err = errRootInside
	}
	if err != nil {
		child.Close()
		return nil, err
	}
	return child, nil
}

var (
	errMountPoint = protocol.Errorf(protocol.CodeForbidden, "it is on another file system")
	errRootInside = protocol.Errorf(protocol.CodeForbidden, "it is a root of the workspace").WithReason(protocol.ReasonWorkspaceBoundary)
)

// kindOf names what a mode is of, as results do.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "other"
}
