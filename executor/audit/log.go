// Package audit writes down what was asked for, by whom, how it was decided and how it ended: one JSON object a line,
// in files that are only appended to.
//
//	log, err := audit.Open(audit.Options{Dir: dir})
//	seq, err := log.Write(audit.Entry{Event: audit.EventDecided, Tool: "bash", …})
//	defer log.Close()
//
//	report, err := audit.Verify(dir)     // is every line there, and as it was written
//	err = audit.Read(dir, func(e audit.Entry) error { … })
//
// Each line carries the hash of the one before, over all files: a line that is changed, or is missing between others,
// shows. The file head says what the last line was, so that lines missing at the end show too. None of
// this hinders somebody who can write all the files and knows how it is done: for that, copy the log elsewhere.
//
// log.go writes and rotates, place.go keeps to its own files, also when they are taken away meanwhile, open.go finds the
// end of what is there; read.go reads, verifies and follows.
package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options of Open. Zero fields are defaults.
type Options struct {
	Dir      string // made with mode 0700
	MaxBytes int64  // of one file; 16 MiB
	Keep     int    // files, the newest; 16
	// Required: each line is on the disk before Write returns, and a line that cannot be written is an error. Else
	// lines are written without waiting for the disk: a kill loses none, a power loss the newest; and one that cannot
	// be written is counted.
	Required bool
	Logger   *zap.Logger
}

// Defaults of Options.
const (
	DefaultMaxBytes = 16 << 20
	DefaultKeep     = 16
)

// retryAfter is how long a disk that took no line is left alone.
const retryAfter = time.Second

// Log may be used concurrently. It is for one process at a time, which the state directory's lock sees to.
type Log struct {
	options Options
	log     *zap.Logger

	mu       sync.Mutex
	file     *placed // nil: the next line opens one
	head     *placed
	number   int
	size     int64
	seq      uint64
	prev     string
	lost     int64 // since the last line
	allLost  int64
	failed   error // why the last line was lost
	tryAgain time.Time
	closed   bool
}

// Write writes one line, with its number, time and chain. seq is 0 when it was lost, which is an error only where the
// log is required.
func (l *Log) Write(e Entry) (seq uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, errors.New("the audit log is closed")
	}
	if l.failed != nil && time.Now().Before(l.tryAgain) {
		return 0, l.lose(l.failed)
	}
	if l.lost > 0 {
		if _, err := l.append(Entry{Event: EventLost, Lines: l.lost, Text: l.failed.Error()}); err != nil {
			return 0, l.fail(err)
		}
		l.log.Info("the audit log is written again", zap.Int64("lines_lost", l.lost))
		l.lost, l.failed = 0, nil
	}
	seq, err = l.append(e)
	if err != nil {
		return 0, l.fail(err)
	}
	l.failed = nil
	return seq, nil
}

// lose counts a line that is not written. l.mu is held.
func (l *Log) lose(err error) error {
	if l.lost == 0 {
		l.log.Error("the audit log cannot be written: lines are lost", zap.Error(err))
	}
	l.failed = err
	l.lost++
	l.allLost++
	if l.options.Required {
		return fmt.Errorf("the audit log cannot be written: %w", err)
	}
	return nil
}

// fail is lose, and leaves the disk alone for a while. l.mu is held.
func (l *Log) fail(err error) error {
	l.tryAgain = time.Now().Add(retryAfter)
	return l.lose(err)
}

// append writes a line. When that fails the file is as it was. l.mu is held.
func (l *Log) append(e Entry) (uint64, error) {
	if err := l.again(); err != nil {
		return 0, err
	}
	if err := l.rotate(); err != nil {
		return 0, err
	}
	e.Seq, e.Time, e.Prev, e.Rotated = l.seq+1, time.Now().UTC(), l.prev, l.oldest()
	line, err := e.encode()
	if err != nil {
		return 0, err
	}
	n, err := l.file.WriteAt(append(line, '\n'), l.size)
	if err == nil && l.options.Required {
		err = l.file.Sync()
	}
	if err != nil {
		_ = l.file.Truncate(l.size) // takes no room; what is left of it all the same is torn
		return 0, err
	}
	l.size += int64(n)
	l.seq, l.prev = e.Seq, hashOf(line)
	l.writeHead()
	if e.Rotated > 0 {
		l.remove(e.Rotated)
	}
	return e.Seq, nil
}

// writeHead notes what the last line is. It is always as long as before, so it takes no room on a full disk.
func (l *Log) writeHead() {
	if l.head != nil {
		_, _ = fmt.Fprintf(atStart{l.head.File}, "%020d %s\n", l.seq, l.prev) // the lines themselves are what counts
	}
}

// atStart writes to the beginning of a file.
type atStart struct{ *os.File }

func (f atStart) Write(p []byte) (int, error) { return f.WriteAt(p, 0) }

// rotate makes sure that there is a file with room. l.mu is held.
func (l *Log) rotate() error {
	if l.file != nil && l.size < l.options.MaxBytes {
		return nil
	}
	f, number, err := l.openNew(l.number + 1)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close()
		l.size = 0
	}
	l.file, l.number = f, number
	return nil
}

// oldest is the number of the newest file that is too old to be kept, once, for the first line of a file: only when
// that line says so are they removed. 0: there is none. l.mu is held.
func (l *Log) oldest() int {
	if l.size > 0 {
		return 0
	}
	numbers, err := files(l.options.Dir)
	if err != nil || len(numbers) <= l.options.Keep {
		return 0
	}
	return numbers[len(numbers)-l.options.Keep-1]
}

// remove removes the files up to a number.
func (l *Log) remove(to int) {
	numbers, err := files(l.options.Dir)
	if err != nil {
		return
	}
	for _, n := range numbers {
		if n <= to {
			_ = os.Remove(filepath.Join(l.options.Dir, fileName(n)))
		}
	}
}

// Lost is how many lines could not be written since Open, and why the last of them, nil when they can be again.
func (l *Log) Lost() (lines int64, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allLost, l.failed
}

// Close writes the last line and closes the files. It may be called twice.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	_, err := l.append(Entry{Event: EventStop, PID: os.Getpid()})
	l.closed = true
	if l.file != nil {
		err = errors.Join(err, l.file.Sync(), l.file.Close())
	}
	if l.head != nil {
		err = errors.Join(err, l.head.Close())
	}
	return err
}

const (
	filePrefix = "audit-"
	fileSuffix = ".jsonl"
	headName   = "head"
)

func fileName(number int) string { return fmt.Sprintf("%s%08d%s", filePrefix, number, fileSuffix) }

// files are the numbers of the files that are there, in order.
func files(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), filePrefix)
		text, also := strings.CutSuffix(text, fileSuffix)
		if n, err := strconv.Atoi(text); ok && also && err == nil && n > 0 && e.Type().IsRegular() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
