package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// maxLine bounds what is read as one line.
const maxLine = 1 << 20

// Report is what Verify has found.
type Report struct {
	Lines    int64    `json:"lines"`
	Files    int      `json:"files"`
	First    uint64   `json:"first"` // the numbers of the lines
	Last     uint64   `json:"last"`
	Rotated  bool     `json:"rotated"`  // what is before the first was too old to be kept
	Problems []string `json:"problems"` // at most 100; the first says where the chain breaks
	Lost     int64    `json:"lost"`     // lines that could not be written, as the log says itself
	Torn     int64    `json:"torn"`     // bytes of a line that is being written, or was cut off by a crash
}

const maxProblems = 100

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Verify reads the whole log and says what is missing or changed in it. It may be called while the log is written.
func Verify(dir string) (Report, error) {
	r := Report{Problems: []string{}}
	seq, hash, headed := readHead(dir) // before the lines: those that come meanwhile are newer
	numbers, err := files(dir)
	if err != nil {
		return r, err
	}
	var prev string
	headSeen, rotated := false, 0
	for i, n := range numbers {
		if i > 0 && n != numbers[i-1]+1 {
			r.problem("%s is missing before %s", fileName(numbers[i-1]+1), fileName(n))
		}
		at := 0
		torn, err := scan(filepath.Join(dir, fileName(n)), 0, func(line []byte) error {
			at++
			where := fmt.Sprintf("%s:%d", fileName(n), at)
			var e Entry
			if err := json.Unmarshal(line, &e); err != nil {
				r.problem("%s is not a line of the log", where)
			}
			switch {
			case r.Lines == 0:
				r.First = e.Seq
			case e.Prev != prev:
				r.problem("%s does not follow the line before it: one of them was changed, or lines between them were removed", where)
			case e.Seq != r.Last+1:
				r.problem("%s: lines %d to %d are not there", where, r.Last+1, e.Seq-1)
			}
			if e.Event == EventRemoved {
				r.problem("%s: %s", where, e.Text)
			}
			prev = hashOf(line)
			r.Lines, r.Last, r.Lost = r.Lines+1, e.Seq, r.Lost+e.Lines
			rotated = max(rotated, e.Rotated)
			if e.Seq == seq {
				headSeen = true
				if headed && prev != hash {
					r.problem("%s is not the line that was written", where)
				}
			}
			return nil
		})
		if err != nil {
			return r, err
		}
		r.Files++
		if torn > 0 && i < len(numbers)-1 {
			r.problem("%s ends within a line", fileName(n))
		}
		r.Torn += torn
	}
	if headed && !headSeen && seq > r.Last {
		r.problem("the log ends with line %d, and line %d was written: removed, or lost with the power", r.Last, seq)
	}
	if !headed {
		_, _, headed = readHead(dir) // it may have been made meanwhile
	}
	if r.Lines == 0 {
		r.problem("there is no line: whatever opened the log wrote one, so all were removed")
	} else if !headed {
		r.problem("the file %s, which says what the last line was, is missing or damaged: lines may be missing at the end", headName)
	}
	switch {
	case r.First <= 1 || len(numbers) == 0:
	case numbers[0] == 1:
		r.problem("%s does not begin with the first line", fileName(1))
	case rotated < numbers[0]-1:
		r.problem("the lines before %d are missing, with %s: no line says that they were too old to be kept", r.First, fileName(numbers[0]-1))
	default:
		r.Rotated = true
	}
	return r, nil
}

// Read calls f for each line, oldest first, until it returns an error. A line that is no entry is passed over.
func Read(dir string, f func(Entry) error) error {
	_, err := (&follower{dir: dir}).read(f)
	return err
}

// followEvery is how often it is looked for new lines.
const followEvery = 200 * time.Millisecond

// Follow is Read, and then waits for further lines, over rotations, until ctx is done or f returns an error. Of the lines
// that are there already it begins with the last few.
func Follow(ctx context.Context, dir string, last int, f func(Entry) error) error {
	from := &follower{dir: dir}
	var tail []Entry
	_, err := from.read(func(e Entry) error {
		if tail = append(tail, e); len(tail) > 2*last+64 {
			tail = append(tail[:0], tail[len(tail)-last:]...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range tail[max(0, len(tail)-last):] {
		if err := f(e); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if _, err := from.read(f); err != nil {
			return err
		}
	}
}

// follower remembers how far it has read.
type follower struct {
	dir    string
	number int
	offset int64
}

// read reads what has come since the last time.
func (r *follower) read(f func(Entry) error) (n int, err error) {
	numbers, err := files(r.dir)
	if err != nil {
		return 0, err
	}
	for _, number := range numbers {
		if number < r.number {
			continue
		}
		if number > r.number {
			r.number, r.offset = number, 0
		}
		_, err := scan(filepath.Join(r.dir, fileName(number)), r.offset, func(line []byte) error {
			r.offset += int64(len(line)) + 1
			var e Entry
			if json.Unmarshal(line, &e) != nil {
				return nil
			}
			n++
			return f(e)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // rotated away meanwhile
			return n, err
		}
	}
	return n, nil
}

// scan calls f for each whole line of a file from an offset on. torn is what stands behind the last.
func scan(path string, offset int64, f func(line []byte) error) (torn int64, err error) {
	file, err := openPlain(path, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long := append([]byte{}, line...)
			for errors.Is(err, bufio.ErrBufferFull) && len(long) < maxLine {
				line, err = in.ReadSlice('\n')
				long = append(long, line...)
			}
			line = long
		}
		if errors.Is(err, io.EOF) {
			return int64(len(line)), nil
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		if err := f(line[:len(line)-1]); err != nil {
			return 0, err
		}
	}
}
