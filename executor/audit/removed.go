package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"
)

// again begins a new file, and says so in it, when the one that is written to was removed: what is written there
// nobody can read. l.mu is held.
func (l *Log) again() error {
	if l.file == nil || !removed(l.file) && (l.head == nil || !removed(l.head)) {
		return nil
	}
	if err := os.MkdirAll(l.options.Dir, 0o700); err != nil {
		return err
	}
	head, err := os.OpenFile(filepath.Join(l.options.Dir, headName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	was, last := l.file, l.seq
	l.file, l.size = nil, 0
	l.number++
	if err := l.rotate(); err != nil {
		l.file = was // it is tried again
		l.number--
		return errors.Join(err, head.Close())
	}
	_ = was.Close()
	if l.head != nil {
		_ = l.head.Close()
	}
	l.head = head
	l.log.Error("files of the audit log were removed while it was written: a new one is begun", zap.Uint64("last", last))
	_, err = l.append(Entry{Event: EventRemoved, Text: fmt.Sprintf("files of the log were removed while it was written; line %d was the last before that", last)})
	return err
}
