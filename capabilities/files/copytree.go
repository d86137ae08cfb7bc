package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/atomicfile"
	"github.com/agent-executor/executor/protocol"
)

// maxSkipped are named of those that are left out.
const maxSkipped = 10

// copier copies trees by handles: links as links, nothing through them.
type copier struct {
	ctx context.Context
	w   *capabilities.Workspace
	all bool // a move: owner, times and attributes too, and nothing may be left out

	copied  int
	bytes   int64
	skipped []string
}

func (c *copier) skippedText() string {
	if len(c.skipped) == 0 {
		return ""
	}
	shown := c.skipped[:min(len(c.skipped), maxSkipped)]
	return fmt.Sprintf("\n[%d left out: %s]", len(c.skipped), strings.Join(shown, "; "))
}

// into calls f with a temporary name beside at, and removes what is still there
// afterwards.
func (c *copier) into(at place, f func(temp place) error) error {
	temp := place{p: at.p, dir: at.dir, name: atomicfile.TempName()}
	if err := f(temp); err != nil {
		_ = at.dir.RemoveAll(temp.name)
		return err
	}
	return nil
}

// fill makes the directory name in to a copy of src, on the disk when it returns.
func (c *copier) fill(src, to *os.Root, name, display string) error {
	if err := c.dir(src, to, name, display); err != nil {
		return err
	}
	return syncTree(to)
}

// dir makes the directory name in to and copies into it all that is in src.
func (c *copier) dir(src, to *os.Root, name, display string) error {
	info, err := src.Stat(".")
	if err != nil {
		return err
	}
	if err := to.Mkdir(name, 0o700); err != nil {
		return err
	}
	child, err := capabilities.OpenChild(to, name)
	if err != nil {
		return err
	}
	defer child.Close()
	err = entries(c.ctx, src, func(e fs.DirEntry) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		return c.entry(src, child, e.Name(), filepath.ToSlash(filepath.Join(display, capabilities.QuoteName(e.Name()))))
	})
	if err != nil {
		return err
	}
	c.copied++
	return c.finishDir(src, child, info)
}

// finishDir gives a directory its mode when it is full: it might be one that nobody
// may write to.
func (c *copier) finishDir(src, dst *os.Root, info fs.FileInfo) error {
	a, err := src.Open(".")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := dst.Open(".")
	if err != nil {
		return err
	}
	defer b.Close()
	if c.all {
		if err := atomicfile.CopyAttributes(a, b); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	if err := b.Chmod(info.Mode().Perm() | info.Mode()&(fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	if c.all {
		return dst.Chtimes(".", info.ModTime(), info.ModTime())
	}
	return nil
}

func (c *copier) entry(src, dst *os.Root, name, display string) error {
	info, err := src.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && !c.all {
		return nil // gone since it was listed
	}
	if err != nil {
		return capabilities.FileError(err, display)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		child, err := enter(c.w, src, name)
		if errors.Is(err, errMountPoint) || errors.Is(err, errRootInside) {
			return c.skip(display, err.Error())
		}
		if err != nil {
			return capabilities.FileError(err, display)
		}
		defer child.Close()
		return c.dir(child, dst, name, display)
	case mode.IsRegular():
		err = c.file(src, name, dst, name, display)
	case mode&fs.ModeSymlink != 0:
		err = c.link(src, name, dst, name)
	default:
		return c.skip(display, "a "+kindOf(mode))
	}
	if err != nil {
		return fault(err, capabilities.Path{Display: display})
	}
	return nil
}

func (c *copier) skip(display, why string) error {
	if c.all {
		return protocol.Errorf(protocol.CodeConflict, "%s cannot be moved to another file system: %s", display, why)
	}
	c.skipped = append(c.skipped, display+" ("+why+")")
	return nil
}

func (c *copier) link(src *os.Root, name string, dst *os.Root, as string) error {
	target, err := src.Readlink(name)
	if err != nil {
		return err
	}
	if err := dst.Symlink(target, as); err != nil {
		return err
	}
	c.copied++
	return nil
}

func (c *copier) file(src *os.Root, name string, dst *os.Root, as, display string) error {
	from, info, err := openIn(src, name, capabilities.Path{Display: display})
	if err != nil {
		return err
	}
	defer from.Close()
	perm := info.Mode().Perm()
	to, err := dst.OpenFile(as, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm|0o200)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, reader{c.ctx, from})
	c.bytes += n
	if err == nil && c.all {
		err = atomicfile.CopyAttributes(from, to)
		if errors.Is(err, fs.ErrPermission) { // not ours to give away
			err = to.Chmod(perm)
		}
	} else if err == nil && perm&0o200 == 0 {
		err = to.Chmod(perm)
	}
	if end := to.Close(); err == nil {
		err = end
	}
	if err == nil && c.all {
		err = dst.Chtimes(as, info.ModTime(), info.ModTime())
	}
	if err == nil {
		c.copied++
	}
	return err
}
