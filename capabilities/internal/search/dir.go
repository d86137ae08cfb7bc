package search

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// kind is what an entry of a directory is.
type kind uint8

const (
	kindSpecial kind = iota // FIFO, device, socket
	kindFile
	kindDir
	kindLink
)

func kindOf(mode fs.FileMode) kind {
	switch {
	case mode.IsRegular():
		return kindFile
	case mode.IsDir():
		return kindDir
	case mode&fs.ModeSymlink != 0:
		return kindLink
	}
	return kindSpecial
}

// entry is a name in a directory, without "." and "..".
type entry struct {
	name string
	kind kind
}

// dir is an open directory. Names are single components; none of its methods follows a
// symbolic link. It may be used concurrently but for close.
type dir interface {
	// list appends what is in the directory, in no order. buf is for the reading alone.
	list(entries []entry, buf []byte) ([]entry, error)
	// open opens a directory in it. The caller closes it.
	open(name string) (dir, error)
	// file opens a regular file in it. The caller closes it.
	file(name string) (io.ReadCloser, error)
	// look says what a name is and when it was changed.
	look(name string) (kind, time.Time, error)
	close()
}

// errNotFile: what was to be a regular file is something else.
var errNotFile = errors.New("not a regular file")

// gone is an error of something that is not there any more, or is now something else that
// a search leaves alone: the tree has changed, and that is no fault.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, errNotFile)
}

// rootDir is a directory through os.Root, for every system.
type rootDir struct{ root *os.Root }

func (d rootDir) list(entries []entry, _ []byte) ([]entry, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return entries, err
	}
	defer f.Close()
	for {
		some, err := f.ReadDir(1024)
		for _, e := range some {
			entries = append(entries, entry{e.Name(), kindOf(e.Type())})
		}
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
	}
}

func (d rootDir) open(name string) (dir, error) {
	before, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !before.IsDir():
		return nil, syscall.ENOTDIR
	}
	child, err := d.root.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	after, err := child.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = syscall.ENOTDIR // it is another one now
	}
	if err != nil {
		child.Close()
		return nil, err
	}
	return rootDir{child}, nil
}

func (d rootDir) file(name string) (io.ReadCloser, error) {
	before, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !before.Mode().IsRegular():
		return nil, errNotFile
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = errNotFile
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d rootDir) look(name string) (kind, time.Time, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return 0, time.Time{}, err
	}
	return kindOf(info.Mode()), info.ModTime(), nil
}

func (d rootDir) close() { _ = d.root.Close() }
