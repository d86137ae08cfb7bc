package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// attempts is how often a path is resolved anew when something on the way was
// replaced between the look and the use.
const attempts = 5

// again calls f until it ends otherwise than in a replaced directory.
func again(f func() error) (err error) {
	for range attempts {
		var e *protocol.Error
		if err = f(); !errors.As(err, &e) || !errors.Is(e, protocol.ErrConflict) || !e.Data.Retryable {
			return err
		}
	}
	return err
}

// errReplaced asks again for another attempt.
func errReplaced(p capabilities.Path) error {
	return protocol.Errorf(protocol.CodeConflict, "%s was replaced at the same moment; try again", p.Display).WithRetryable(true)
}

// openFile opens a regular file for reading. The caller closes it.
func openFile(w *capabilities.Workspace, path string) (f *os.File, info fs.FileInfo, p capabilities.Path, err error) {
	if f, info, p, ok := w.OpenRegular(path); ok {
		return f, info, p, nil
	}
	err = again(func() error {
		p, err = w.Resolve(path)
		if err != nil {
			return err
		}
		dir, name, err := p.OpenParent()
		if err != nil {
			return err
		}
		defer dir.Close()
		f, info, err = openIn(dir, name, p)
		return err
	})
	return f, info, p, notThere(err, w, p, path)
}

// openIn opens the file name in dir, which is p, and no link. A look comes before
// the open, because opening alone makes some devices do something; what counts is
// what was opened.
func openIn(dir *os.Root, name string, p capabilities.Path) (*os.File, fs.FileInfo, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, capabilities.FileError(err, p.Display)
	}
	if err := mustBeFile(before, p); err != nil {
		return nil, nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, capabilities.FileError(err, p.Display)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = capabilities.FileError(err, p.Display)
	case !os.SameFile(before, info) || !info.Mode().IsRegular():
		err = errReplaced(p)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// mustBeFile refuses what cannot be read to its end and written as a whole.
func mustBeFile(info fs.FileInfo, p capabilities.Path) error {
	mode := info.Mode()
	kind := "something special"
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return protocol.Errorf(protocol.CodeInvalidParams, "%s is a directory: list_files shows what is in it", p.Display)
	case mode&fs.ModeSymlink != 0:
		return errReplaced(p)
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return protocol.Errorf(protocol.CodeInvalidParams, "%s is not a regular file but %s", p.Display, kind)
}

// makeDir opens the directory abs and makes it and those above it when they are
// not there. made are the new ones, outermost first, also when there is an error. It goes
// down by handles: a path may have two thousand directories.
func makeDir(ctx context.Context, w *capabilities.Workspace, abs string) (dir *os.Root, made []capabilities.Path, err error) {
	p, err := w.ResolveWrite(capabilities.QuoteName(abs))
	if err != nil {
		return nil, nil, err
	}
	if dir, err = p.Root.OpenRoot("."); err != nil {
		return nil, nil, capabilities.FileError(err, p.Display)
	}
	at := "" // below the root
	for step := range strings.SplitSeq(p.Rel, string(filepath.Separator)) {
		if step == "." || step == "" {
			continue
		}
		at = filepath.Join(at, step)
		next, err := capabilities.OpenChild(dir, step)
		if errors.Is(err, fs.ErrNotExist) {
			if err := ctx.Err(); err != nil {
				dir.Close()
				return nil, made, err
			}
			if err = dir.Mkdir(step, 0o777); err == nil {
				made = append(made, w.Above(p, at))
			}
			if err == nil || errors.Is(err, fs.ErrExist) {
				next, err = capabilities.OpenChild(dir, step)
			}
		}
		dir.Close()
		if err != nil {
			return nil, made, capabilities.FileError(err, p.Display)
		}
		dir = next
	}
	return dir, made, nil
}

// unmakeDirs removes directories that makeDir made for nothing. One that
// somebody has put something into stays.
func unmakeDirs(made []capabilities.Path) {
	for i := len(made) - 1; i >= 0; i-- {
		if dir, name, err := made[i].OpenParent(); err == nil {
			dir.Remove(name)
			dir.Close()
		}
	}
}
