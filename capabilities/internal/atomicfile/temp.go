package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// tempPrefix begins the name of every temporary file. The dot hides it; its
// length is bounded however long the name of the file is.
const tempPrefix = ".executor-tmp-"

// temp is a temporary file in dir.
type temp struct {
	dir    *os.Root
	handle *os.File // of dir
	file   *os.File
	name   string // "" when it has none yet, or there is nothing to remove any more
}

// newTemp makes a file without a name where that can be done.
func (w *writer) newTemp(perm fs.FileMode) (*temp, error) {
	if !w.named {
		if f, err := openNameless(w.handle, perm); err == nil {
			return &temp{dir: w.dir, handle: w.handle, file: f}, nil
		}
	}
	return w.newNamedTemp(perm)
}

func (w *writer) newNamedTemp(perm fs.FileMode) (*temp, error) {
	name := TempName()
	f, err := w.dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|nonblock, perm)
	if err != nil {
		return nil, err
	}
	return &temp{dir: w.dir, handle: w.handle, file: f, name: name}, nil
}

// errNoName: a file that has no name could not be given one.
var errNoName = errors.New("the system gives no name to a file that has none")

// take closes the file and gives it name, in the place of what has it. A file that had no
// name has another one for a moment, which is as short as can be: a crash leaves it.
func (t *temp) take(name string) error {
	if t.name == "" {
		between := TempName()
		if err := giveName(t.file, t.handle, between); err != nil {
			return fmt.Errorf("%w: %w", errNoName, err)
		}
		t.name = between
		defer t.file.Close() // it is on the disk already
	} else if err := t.file.Close(); err != nil {
		return err
	}
	if err := t.dir.Rename(t.name, name); err != nil {
		return err
	}
	t.name = ""
	return nil
}

// takeFree closes the file and gives it name, which nothing has; else the error is
// fs.ErrExist.
func (t *temp) takeFree(name string) error {
	if t.name == "" {
		err := giveName(t.file, t.handle, name)
		switch {
		case errors.Is(err, fs.ErrExist):
			return &os.LinkError{Op: "link", Old: tempPrefix, New: name, Err: fs.ErrExist}
		case err != nil:
			return fmt.Errorf("%w: %w", errNoName, err)
		}
		return t.file.Close()
	}
	if err := t.file.Close(); err != nil {
		return err
	}
	return renameNew(t.dir, t.handle, t.name, name)
}

// discard closes and removes the file, as far as that has not been done.
func (t *temp) discard() {
	t.file.Close()
	if t.name != "" {
		t.dir.Remove(t.name)
	}
}
