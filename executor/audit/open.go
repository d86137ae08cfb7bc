package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.uber.org/zap"
)

// Open opens the log in a directory, behind what is there. A last line that a crash has cut off is removed, and a line
// says so. The error is one of the file system.
func Open(o Options) (*Log, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Keep <= 0 {
		o.Keep = DefaultKeep
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	l := &Log{options: o, log: o.Logger.Named("audit")}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	torn, err := l.find()
	if err == nil {
		l.head, err = openHead(o.Dir)
	}
	if err != nil {
		if l.file != nil {
			_ = l.file.Close()
		}
		return nil, fmt.Errorf("audit log: %w", err)
	}
	missing := ""
	switch seq, _, ok := readHead(o.Dir); {
	case !ok && l.seq > 0:
		missing = "the file that says what the last line was is missing or damaged: lines may be missing before this one"
		l.log.Error("the file head of the audit log is missing or damaged", zap.Uint64("last", l.seq))
	case ok && seq > l.seq:
		missing = fmt.Sprintf("the lines %d to %d are not there: removed, or lost with the power", l.seq+1, seq)
		l.log.Error("lines of the audit log are missing", zap.Uint64("last", l.seq), zap.Uint64("written", seq))
		l.seq = seq // their numbers are not used again, so that the gap stays seen
	}
	if torn > 0 {
		l.log.Warn("the last line of the audit log was cut off and is removed", zap.Int64("bytes", torn))
		if _, err := l.Write(Entry{Event: EventTorn, Bytes: torn}); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if _, err := l.Write(Entry{Event: EventStart, PID: os.Getpid(), Text: missing}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// find opens the newest file and finds its last whole line. torn is what stands behind it.
func (l *Log) find() (torn int64, err error) {
	numbers, err := files(l.options.Dir)
	if err != nil {
		return 0, err
	}
	for i := len(numbers) - 1; i >= 0; i-- {
		path := filepath.Join(l.options.Dir, fileName(numbers[i]))
		line, end, size, err := lastLine(path)
		if err != nil {
			return 0, err
		}
		if l.file == nil { // the newest, whether or not something is in it
			if l.file, err = openPlain(path, os.O_WRONLY); err != nil {
				return 0, err
			}
			l.number, l.size, torn = numbers[i], end, size-end
			if torn > 0 {
				if err := l.file.Truncate(end); err != nil {
					return 0, err
				}
			}
		}
		if line == nil {
			continue
		}
		var e Entry
		_ = json.Unmarshal(line, &e) // a damaged one is in the chain all the same, and Verify says it
		l.seq, l.prev = e.Seq, hashOf(line)
		break
	}
	return torn, nil
}

// lastLine returns the last whole line of a file, and where it ends.
func lastLine(path string) (line []byte, end, size int64, err error) {
	f, err := openPlain(path, os.O_RDONLY)
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	size = f.info.Size()
	var tail []byte // what has been read, from its end
	for at := size; ; {
		if i := bytes.LastIndexByte(tail, '\n'); i >= 0 {
			if j := bytes.LastIndexByte(tail[:i], '\n'); j >= 0 || at == 0 {
				return bytes.Clone(tail[j+1 : i]), at + int64(i) + 1, size, nil
			}
		}
		if at == 0 {
			return nil, 0, size, nil
		}
		n := min(at, 64<<10)
		chunk := make([]byte, n)
		if _, err := f.ReadAt(chunk, at-n); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, 0, err
		}
		at -= n
		tail = append(chunk, tail...)
	}
}

// readHead reads what the last line was. ok is false when that is not known.
func readHead(dir string) (seq uint64, hash string, ok bool) {
	f, err := openPlain(filepath.Join(dir, headName), os.O_RDONLY)
	if err != nil {
		return 0, "", false
	}
	defer f.Close()
	n, err := fmt.Fscanf(io.LimitReader(f, 1000), "%d %s", &seq, &hash)
	return seq, hash, err == nil && n == 2
}
