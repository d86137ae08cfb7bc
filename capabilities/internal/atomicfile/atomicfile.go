// Package atomicfile changes the whole content of a file. Whatever happens, a
// full disk or a crash included, the name has the old content or the new one, and
// nothing else of the file changes: permission bits, owner, extended attributes.
//
//	res, err := atomicfile.Write(dir, "config.yaml", content, atomicfile.Options{})
//
// The new content is written to a temporary file in the same directory, made
// durable and renamed over the old one. On Linux that file has no name before, so that a
// crash leaves nothing of it. That gives the name a new inode, so where
// the inode matters the file is written in place instead, with a copy of the old
// content beside it until that is done: a file with several hard links, a file
// that is a mount point, one whose owner this process cannot give away, and one in
// a directory that this process cannot write.
//
// Everything goes through the directory's handle and names one component in it,
// so that no link can lead elsewhere. Writers of one file have to be kept apart by
// the caller.
package atomicfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// ErrNotRegular: under the name there is something else than a regular file.
var ErrNotRegular = errors.New("not a regular file")

// Options say more about a Write. The zero value replaces or creates.
type Options struct {
	Perm fs.FileMode // permission bits of a new file, less the umask; 0 is 0666
	// NoPerm: a new file has no permission bits at all, whatever Perm is.
	NoPerm bool
	// New: there must be nothing under the name, else the error is fs.ErrExist. It
	// is decided at the moment the name is taken, not before. Without it, fs.ErrExist
	// means that a file appeared while a new one was being written.
	New bool
	// Meanwhile is called once before Check: beside the wait for the disk, for work whose
	// result nobody needs earlier.
	Meanwhile func()
	// Check is called at the last moment before the change becomes visible. Its
	// error ends the Write with everything as it was.
	Check func() error
}

// Result says what Write did. It counts also when there is an error beside it.
type Result struct {
	Changed bool // the name has the new content
	Created bool // there was no such file before
	InPlace bool // the file kept its inode
}

// Write makes content the content of the file name in dir. name is a single
// component and no symbolic link; the caller has resolved it. When it returns
// without an error, file and directory entry are on the disk.
func Write(dir *os.Root, name string, content []byte, opts Options) (Result, error) {
	return WriteFrom(dir, name, bytes.NewReader(content), int64(len(content)), opts)
}

// WriteFrom is Write for content that is not in memory: size bytes, about, that r
// gives from its start, perhaps more than once.
func WriteFrom(dir *os.Root, name string, r io.ReadSeeker, size int64, opts Options) (Result, error) {
	w := &writer{dir: dir, name: name, content: r, size: size, opts: opts}
	return w.write()
}

// writer is one Write.
type writer struct {
	dir     *os.Root
	handle  *os.File // of dir, for what os.Root has no method for
	name    string
	content io.ReadSeeker
	size    int64
	opts    Options
	named   bool // temporary files have a name from the start
}

func (w *writer) write() (Result, error) {
	switch {
	case w.opts.NoPerm:
		w.opts.Perm = 0
	case w.opts.Perm == 0:
		w.opts.Perm = 0o666
	}
	handle, err := w.dir.OpenFile(".", os.O_RDONLY|nonblock, 0)
	if err != nil {
		return Result{}, err
	}
	defer handle.Close()
	w.handle = handle

	old, err := w.lookAtOld()
	switch {
	case err != nil:
		return Result{}, err
	case old == nil:
		return w.create()
	case w.opts.New:
		return Result{}, &fs.PathError{Op: "create", Path: w.name, Err: fs.ErrExist}
	}
	if old.links <= 1 {
		res, err := w.replace(old)
		if !errors.Is(err, errKeepInode) {
			return res, err
		}
	}
	defer w.awaitStarts(busyTimeInPlace)
	return w.overwrite(old)
}

// errKeepInode: a new inode could not take the place of the old one.
var errKeepInode = errors.New("the file has to be written in place")

// lookAtOld returns what has to be kept of the file, nil when there is none. A
// file that may not be written is left alone, though a rename would get past
// its permission bits.
func (w *writer) lookAtOld() (*attributes, error) {
	info, err := w.dir.Lstat(w.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "write", Path: w.name, Err: ErrNotRegular}
	}
	if err := writable(w.handle, w.name, info); err != nil {
		return nil, &fs.PathError{Op: "write", Path: w.name, Err: err}
	}
	f, err := w.dir.OpenFile(w.name, os.O_RDONLY|nonblock, 0)
	if errors.Is(err, fs.ErrPermission) {
		f, err = w.dir.OpenFile(w.name, os.O_WRONLY|nonblock, 0)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// What was opened decides; the name may have been given away meanwhile.
	info, err = f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "write", Path: w.name, Err: ErrNotRegular}
	}
	return readAttributes(f, info)
}

func (w *writer) create() (Result, error) {
	tmp, err := w.newTemp(w.opts.Perm)
	if err != nil {
		return Result{}, err
	}
	defer tmp.discard()
	if err := w.fill(tmp, nil); err != nil {
		return Result{}, err
	}
	err = tmp.takeFree(w.name)
	if errors.Is(err, errNoName) {
		w.named = true
		return w.create()
	}
	if err != nil {
		return Result{}, err
	}
	w.awaitStarts(busyTime)
	return Result{Changed: true, Created: true}, w.syncDir()
}

func (w *writer) replace(old *attributes) (Result, error) {
	tmp, err := w.newTemp(0o600)
	if errors.Is(err, fs.ErrPermission) {
		return Result{}, errKeepInode
	}
	if err != nil {
		return Result{}, err
	}
	defer tmp.discard()
	if err := w.fill(tmp, old); err != nil {
		return Result{}, err
	}
	err = tmp.take(w.name)
	switch {
	case errors.Is(err, errNoName):
		w.named = true
		return w.replace(old)
	case isMountPoint(err), errors.Is(err, fs.ErrPermission):
		return Result{}, errKeepInode
	case err != nil:
		return Result{}, err
	}
	w.awaitStarts(busyTime)
	return Result{Changed: true}, w.syncDir()
}

// fill makes the temporary file what the file is to be, durably.
func (w *writer) fill(tmp *temp, old *attributes) error {
	if _, err := w.content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(tmp.file, w.content); err != nil {
		return err
	}
	if old != nil {
		if err := old.apply(tmp.file); err != nil {
			return fmt.Errorf("%w: %w", errKeepInode, err)
		}
	}
	if err := w.sync(tmp.file); err != nil {
		return err
	}
	return w.check()
}

// sync waits until f is on the disk, and has the caller's work done meanwhile.
func (w *writer) sync(f *os.File) error {
	work := w.opts.Meanwhile
	if work == nil {
		return f.Sync()
	}
	w.opts.Meanwhile = nil
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	defer func() { <-done }()
	return f.Sync()
}

func (w *writer) check() error {
	if work := w.opts.Meanwhile; work != nil { // there was nothing to wait for
		w.opts.Meanwhile = nil
		work()
	}
	if w.opts.Check == nil {
		return nil
	}
	return w.opts.Check()
}

// CopyAttributes gives to what from has beside its content: permission bits, owner,
// extended attributes.
func CopyAttributes(from, to *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	a, err := readAttributes(from, info)
	if err != nil {
		return err
	}
	return a.apply(to)
}

// TempName is a name for something else that is made beside its final place, a
// directory for example.
func TempName() string { return tempPrefix + strings.ToLower(rand.Text()) }

// syncDir makes the directory entry durable.
func (w *writer) syncDir() error {
	if err := syncDir(w.handle); err != nil {
		return fmt.Errorf("%s is written, but its directory may not be on the disk: %w", w.name, err)
	}
	return nil
}
