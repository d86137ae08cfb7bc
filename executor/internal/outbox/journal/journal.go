package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Sizes of segments. The first one is small, since most executors have little to keep;
// each further one is twice as large while they fill up, and smaller when the disk is
// nearly full.
const (
	minSegment   = 64 << 10
	firstSegment = 256 << 10
	maxSegment   = 4 << 20
	maxGrowing   = 16 << 20

	// bulk is what is written to a segment that grows: to fill one first and then write
	// it would be twice the work.
	bulk = 32 << 10
)

// spareName is a segment that is not used yet: it is taken when the disk has no room
// for another one.
const spareName = "journal-spare"

// ErrClosed is the error of everything after Close.
var ErrClosed = errors.New("the journal is closed")

// Journal is used concurrently. Whoever opened it closes it.
type Journal struct {
	dir    string
	bodies atomic.Uint64 // the last number given to a body's file

	io       sync.Mutex // held while segments are written or changed; taken before mu
	active   *segment
	growing  *segment
	nextSize int64 // of the next segment
	nextID   uint64
	spare    bool // there is a file of that name
	closed   bool

	mu       sync.Mutex // never held for long
	open     *batch     // takes what is staged; nil = none
	buffer   []byte     // of a batch that was written, for the next one
	seq      uint64
	segments []*segment // all, oldest first
}

// batch is what is written at once.
type batch struct {
	buf  []byte
	sync bool

	// Set by the one who writes it, under io.
	done bool
	err  error
	seg  *segment
	base int64
}

// Staged is a record that has its place in the order. Wait has to be called.
type Staged struct {
	j           *Journal
	b           *batch
	off, length int
	own         string
}

// Stage gives an entry that was prepared its place in the order of records. It does
// not wait for anything.
func (j *Journal) Stage(e Entry) *Staged {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == nil {
		j.open = &batch{buf: j.buffer[:0]}
		j.buffer = nil
	}
	b := j.open
	if e.seq == 0 {
		j.seq++
		e.seq = j.seq
	}
	off := len(b.buf)
	b.buf = appendRecord(b.buf, e, e.seq)
	b.sync = b.sync || e.Sync
	s := &Staged{j: j, b: b, off: off, length: len(b.buf) - off}
	if r, ok := parseBodyRef(e.Body); ok && e.flags&flagOwnFile != 0 {
		s.own = bodyName(r.number)
	}
	return s
}

// Barrier returns what to Wait for until all that is staged by now is written.
func (j *Journal) Barrier() *Staged {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == nil {
		j.open = &batch{}
	}
	return &Staged{j: j, b: j.open}
}

// Wait returns when the record is written, and synced if the entry asks for it. Who
// comes first writes for all. After an error the record is not there.
func (s *Staged) Wait() error {
	j, b := s.j, s.b
	j.io.Lock()
	defer j.io.Unlock()
	if !b.done {
		j.mu.Lock()
		if j.open == b {
			j.open = nil
		}
		j.mu.Unlock()
		j.write(b)
	}
	return b.err
}

// Ref is where the record is, after a Wait without an error.
func (s *Staged) Ref() Ref {
	return Ref{seg: s.b.seg, off: s.b.base + int64(s.off), length: s.length, own: s.own}
}

// write writes a batch. io is held.
func (j *Journal) write(b *batch) {
	b.done = true
	if len(b.buf) == 0 {
		return
	}
	b.err = j.put(b)
	n := len(b.buf)
	j.mu.Lock()
	if b.err == nil {
		b.seg.live += int64(n)
	}
	if cap(b.buf) <= maxSegment {
		j.buffer = b.buf
	}
	j.mu.Unlock()
	b.buf = nil
}

// put writes a batch. A large one goes to a segment that grows, unless the disk is
// full; anything else to a segment that is there.
func (j *Journal) put(b *batch) error {
	if j.closed {
		return ErrClosed
	}
	if len(b.buf) >= bulk {
		if err := j.putTo(b, &j.growing, j.grow); !isFull(err) {
			return err
		}
	}
	return j.putTo(b, &j.active, j.rotate)
}

// putTo writes a batch to the segment at, or to a new one when it does not fit or that
// one cannot be written any more: after a failed sync nobody knows what of it is on
// the disk.
func (j *Journal) putTo(b *batch, at **segment, next func(need int) error) error {
	for attempt := 0; ; attempt++ {
		if *at == nil || !(*at).fits(len(b.buf)) {
			if err := next(len(b.buf)); err != nil {
				return err
			}
		}
		s := *at
		_, err := s.f.WriteAt(b.buf, s.end)
		if err == nil && b.sync {
			err = syncData(s.f)
		}
		if err == nil {
			b.seg, b.base = s, s.end
			s.end += int64(len(b.buf))
			return nil
		}
		if isFull(err) && s.grows && s.f.Truncate(s.end) == nil {
			return fmt.Errorf("write the journal: %w", err)
		}
		// What was written of it may be found again, so nothing may be put behind it.
		j.seal(s, true)
		*at = nil
		if attempt > 0 {
			return fmt.Errorf("write the journal: %w", err)
		}
	}
}

// grow makes a segment the growing one.
func (j *Journal) grow(int) error {
	s, err := makeSegment(j.dir, j.nextID, 0)
	if err != nil {
		return fmt.Errorf("make a segment of the journal: %w", err)
	}
	if old := j.growing; old != nil {
		// Its end is known now: from here on a cut is not taken for a write that was not
		// finished. It need not be on the disk at once.
		_, _ = old.f.WriteAt(headerOf(old.id, old.end), 0)
		old.size = old.end
		j.seal(old, false)
	}
	j.growing = s
	j.add(s)
	return nil
}

// add makes a segment one of the journal's.
func (j *Journal) add(s *segment) {
	j.nextID++
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segments = append(j.segments, s)
}

// rotate makes a segment the active one that has room for need bytes.
func (j *Journal) rotate(need int) error {
	least := int64(segmentHeader + need)
	size := max(j.nextSize, least)
	s, err := makeSegment(j.dir, j.nextID, size)
	for err != nil && isFull(err) && size > max(minSegment, least) {
		size = max(size/2, minSegment, least)
		s, err = makeSegment(j.dir, j.nextID, size)
	}
	switch {
	case err == nil:
		j.nextSize = min(2*size, maxSegment)
	case j.spare:
		if s, err = j.takeSpare(least, err); err != nil {
			return err
		}
		j.nextSize = firstSegment
	default:
		return fmt.Errorf("make a segment of the journal: %w", err)
	}
	if j.active != nil {
		j.seal(j.active, false)
	}
	j.active = s
	j.add(s)
	if !j.spare {
		j.makeSpare()
	}
	return nil
}

// seal says that nothing more is written to a segment.
func (j *Journal) seal(s *segment, damaged bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.sealed, s.damaged = true, s.damaged || damaged
}

// Probe reports whether there is room for a further record.
func (j *Journal) Probe() error {
	j.io.Lock()
	defer j.io.Unlock()
	if j.closed {
		return ErrClosed
	}
	if j.active != nil && j.active.fits(minSegment/2) {
		return nil
	}
	return j.rotate(0)
}

// makeSpare puts a segment aside for the day the disk is full. It is not there when
// it is full already.
func (j *Journal) makeSpare() {
	s, err := makeSegment(j.dir, 0, firstSegment)
	if err != nil {
		return
	}
	_ = s.f.Close()
	if err := os.Rename(s.path, filepath.Join(j.dir, spareName)); err != nil {
		_ = os.Remove(s.path)
		return
	}
	j.spare = true
}

// takeSpare makes the spare segment the next one: that takes no room on the disk.
func (j *Journal) takeSpare(least int64, full error) (*segment, error) {
	if least > firstSegment {
		return nil, fmt.Errorf("make a segment of the journal: %w", full)
	}
	path := filepath.Join(j.dir, segmentName(j.nextID))
	f, err := os.OpenFile(filepath.Join(j.dir, spareName), os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(headerOf(j.nextID, firstSegment), 0)
		if err == nil {
			err = syncData(f)
		}
		if err == nil {
			err = os.Rename(filepath.Join(j.dir, spareName), path)
		}
		if err == nil {
			err = syncDir(j.dir)
		}
		if err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take the spare segment of the journal: %w (%w)", err, full)
	}
	j.spare = false
	return &segment{id: j.nextID, path: path, f: f, size: firstSegment, end: segmentHeader}, nil
}

// Read reads a body.
func (j *Journal) Read(r Ref) ([]byte, error) {
	f, err := r.parse()
	if err != nil {
		return nil, err
	}
	if f.flags&flagOwnFile == 0 {
		return f.body, nil
	}
	own, ok := parseBodyRef(f.body)
	if !ok {
		return nil, fmt.Errorf("%s: a record does not say where its body is", r.seg.path)
	}
	return readBody(j.dir, own)
}

func (r Ref) parse() (found, error) {
	b := make([]byte, r.length)
	if _, err := r.seg.f.ReadAt(b, r.off); err != nil {
		return found{}, fmt.Errorf("read the journal: %w", err)
	}
	f, ok := parse(b, 0)
	if !ok {
		return found{}, fmt.Errorf("%s is damaged at %d", r.seg.path, r.off)
	}
	return f, nil
}

// Mark marks a record in place. It takes no room on the disk and is not synced: after
// a power loss the record may not be marked.
func (j *Journal) Mark(r Ref) error {
	var h [8]byte
	if _, err := r.seg.f.ReadAt(h[:], r.off); err != nil {
		return fmt.Errorf("mark a record of the journal: %w", err)
	}
	sum := binary.LittleEndian.Uint32(h[4:])
	binary.LittleEndian.PutUint32(h[:4], markOf(sum))
	if _, err := r.seg.f.WriteAt(h[:4], r.off+markOffset); err != nil {
		return fmt.Errorf("mark a record of the journal: %w", err)
	}
	return nil
}

// Drop says that a record is not needed any more. It may be found again by Open as
// long as its segment is there; the file of its body is removed.
func (j *Journal) Drop(r Ref) {
	if r.IsZero() {
		return
	}
	j.mu.Lock()
	r.seg.live -= int64(r.length)
	j.mu.Unlock()
	if r.own != "" {
		_ = os.Remove(filepath.Join(j.dir, r.own))
	}
}

// Close syncs what was written and closes the files.
func (j *Journal) Close() error {
	j.io.Lock()
	defer j.io.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	var errs []error
	for _, s := range j.segments {
		if !s.sealed {
			errs = append(errs, syncData(s.f))
		}
		errs = append(errs, s.f.Close())
	}
	return errors.Join(errs...)
}
