package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"
)

// Who can write to the directory can put there what is no file of the log under a name of one, or take a file away
// while it is written to: neither is to hang the log, nor to have it write elsewhere.

// placed is an open file and what it is, to know it again by its name.
type placed struct {
	*os.File
	path string
	info fs.FileInfo
}

// openPlain opens a regular file of the log.
func openPlain(path string, flags int) (*placed, error) {
	f, err := os.OpenFile(path, flags|noStrangers, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file; move it away", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &placed{f, path, info}, nil
}

// moved says that the name leads elsewhere by now, or nowhere.
func (p *placed) moved() bool {
	now, err := os.Lstat(p.path)
	return err != nil || !os.SameFile(p.info, now)
}

// openHead opens the file head, in the place of what is none.
func openHead(dir string) (*placed, error) {
	path := filepath.Join(dir, headName)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		if err := os.Rename(path, path+".strange"); err != nil {
			return nil, err
		}
	}
	return openPlain(path, os.O_CREATE|os.O_RDWR)
}

// openNew makes a file of the log with that number, or the next that is free.
func (l *Log) openNew(number int) (*placed, int, error) {
	for last := number + 1000; ; number++ {
		f, err := openPlain(filepath.Join(l.options.Dir, fileName(number)), os.O_CREATE|os.O_EXCL|os.O_WRONLY)
		if err == nil || !errors.Is(err, fs.ErrExist) || number == last {
			return f, number, err
		}
	}
}

// again begins a new file, and says so in it, when those that are written to are not in their place any more: what is
// written there nobody reads. l.mu is held.
func (l *Log) again() error {
	var gone []string
	for _, f := range []*placed{l.file, l.head} {
		if f != nil && f.moved() {
			gone = append(gone, filepath.Base(f.path))
		}
	}
	if l.file == nil || len(gone) == 0 {
		return nil
	}
	if err := os.MkdirAll(l.options.Dir, 0o700); err != nil {
		return err
	}
	head, err := openHead(l.options.Dir)
	if err != nil {
		return err
	}
	f, number, err := l.openNew(l.number + 1)
	if err != nil {
		return errors.Join(err, head.Close())
	}
	_ = l.file.Close()
	if l.head != nil {
		_ = l.head.Close()
	}
	l.file, l.number, l.size, l.head = f, number, 0, head
	l.log.Error("files of the audit log were taken away while it was written: a new one is begun", zap.Strings("files", gone), zap.Uint64("last", l.seq))
	_, err = l.append(Entry{Event: EventRemoved, Text: fmt.Sprintf("taken away while the log was written: %s; line %d was the last before that", strings.Join(gone, " and "), l.seq)})
	return err
}
