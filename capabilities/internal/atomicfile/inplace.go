package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxMemoryCopy bounds, in bytes, the old content that is kept in memory where no
// file can be made beside the old one.
const maxMemoryCopy = 64 << 20

// LostError: a file was being written in place, that failed, and so did putting
// the old content back. It is the one case in which a file is left damaged.
type LostError struct {
	Err  error  // why it could not be written
	Back error  // why the old content could not be put back
	Copy string // the name of the copy of the old content, beside the file; "" when there is none
}

func (e *LostError) Error() string {
	where := "is lost"
	if e.Copy != "" {
		where = "is in " + e.Copy + " beside it"
	}
	return fmt.Sprintf("writing failed (%v), so did putting the old content back (%v); the old content %s", e.Err, e.Back, where)
}

func (e *LostError) Unwrap() error { return e.Err }

// overwrite writes the content into the file that is there. The old content is
// copied first and put back when anything fails; after a crash the copy is still
// there, beside the file.
func (w *writer) overwrite(old *attributes) (Result, error) {
	f, err := w.dir.OpenFile(w.name, os.O_RDWR|nonblock, 0)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Result{}, err
	}
	if !os.SameFile(info, old.info) {
		return Result{}, &fs.PathError{Op: "write", Path: w.name, Err: errors.New("replaced by another file at the same moment")}
	}
	saved, err := w.save(f, info.Size())
	if err != nil {
		return Result{}, fmt.Errorf("copy the old content: %w", err)
	}
	defer saved.discard()
	if err := w.check(); err != nil {
		return Result{}, err
	}
	// Space first: past this point a full disk can hardly get in the way.
	if err := reserve(f, w.size); err != nil {
		return Result{}, &fs.PathError{Op: "write", Path: w.name, Err: err}
	}
	if err := setContent(f, w.content); err != nil {
		if back := setContent(f, saved.content); back != nil {
			return Result{}, &LostError{Err: err, Back: back, Copy: saved.keep()}
		}
		return Result{}, err
	}
	// Writing clears the set-user-ID bits.
	if err := f.Chmod(fileMode(old.info)); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
		return Result{Changed: true, InPlace: true}, err
	}
	return Result{Changed: true, InPlace: true}, nil
}

// setContent makes all of r the content of f, durably.
func setContent(f *os.File, r io.ReadSeeker) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	// Only the two methods: io.Copy would use copy_file_range otherwise, and a file
	// that shares blocks needs space when it is written to.
	size, err := io.Copy(struct{ io.Writer }{f}, struct{ io.Reader }{r})
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// saved is the copy of the old content.
type saved struct {
	content io.ReadSeeker
	temp    *temp // nil when the copy is in memory
}

func (w *writer) save(f *os.File, size int64) (*saved, error) {
	tmp, err := w.newNamedTemp(0o600)
	if errors.Is(err, fs.ErrPermission) {
		if size > maxMemoryCopy {
			return nil, err
		}
		old, err := io.ReadAll(io.LimitReader(f, maxMemoryCopy))
		return &saved{content: bytes.NewReader(old)}, err
	}
	if err != nil {
		return nil, err
	}
	s := &saved{content: tmp.file, temp: tmp}
	_, err = io.Copy(tmp.file, f)
	if err == nil {
		err = tmp.file.Sync()
	}
	if err == nil {
		err = syncDir(w.handle)
	}
	if err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

func (s *saved) discard() {
	if s.temp != nil {
		s.temp.discard()
	}
}

// keep leaves the copy where it is and names it, "" when it was in memory.
func (s *saved) keep() string {
	if s.temp == nil {
		return ""
	}
	name := s.temp.name
	s.temp.name = ""
	return name
}
