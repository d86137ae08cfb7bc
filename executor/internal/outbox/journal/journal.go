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
	boot   string        // the start of the machine; "" = it has no name
	bodies atomic.Uint64 // the last number given to a body's file

	manifest *manifest

	io       sync.Mutex // held while segments are written or changed, not while they are synced; taken before mu
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
	pieces
	records int

	// Set by the one who writes it, under io.
	done bool
	err  error
	seg  *segment
	base int64
	end  int64
}

// Staged is a record that has its place in the order. Write or Wait has to be called,
// and Release once it is known where the record is.
type Staged struct {
	j           *Journal
	b           *batch
	sync        bool
	off, length int
	own         string
}

// Stage gives an entry that was prepared its place in the order of records. It does
// not wait for anything.
func (j *Journal) Stage(e Entry) *Staged {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == nil {
		j.open = &batch{}
		j.open.tail, j.buffer = j.buffer[:0], nil
	}
	b := j.open
	if e.seq == 0 {
		j.seq++
		e.seq = j.seq
	}
	s := &Staged{j: j, b: b, sync: e.Sync, off: b.size}
	s.length = b.add(e, e.seq)
	b.records++
	if r, ok := parseBodyRef(e.Body); ok && e.flags&flagOwnFile != 0 {
		s.own = bodyName(r.number)
	}
	return s
}

// Wait returns when the record is written, and synced if the entry asks for it. Who
// comes first writes for all that are staged, and syncs for all that are written. After
// an error the record counts as not there.
func (s *Staged) Wait() error {
	if err := s.Write(); err != nil || !s.sync {
		return err
	}
	err := s.b.seg.syncTo(s.b.end)
	if err != nil {
		s.j.abandon(s.b.seg)
	}
	return err
}

// Write returns when the record is written: it survives the end of the process. Wait may
// still be called for the rest.
func (s *Staged) Write() error {
	j, b := s.j, s.b
	j.io.Lock()
	if !b.done {
		j.mu.Lock()
		if j.open == b {
			j.open = nil
		}
		j.mu.Unlock()
		j.write(b)
	}
	j.io.Unlock()
	return b.err
}

// Release says that the Ref is known to whoever moves records. Until then the segment
// is no victim. It is called once.
func (s *Staged) Release() {
	if s.b.err != nil {
		return
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	s.b.seg.held--
}

// Ref is where the record is, after a Write or Wait without an error.
func (s *Staged) Ref() Ref {
	return Ref{seg: s.b.seg, off: s.b.base + int64(s.off), length: s.length, own: s.own}
}

// write writes a batch. io is held.
func (j *Journal) write(b *batch) {
	b.done = true
	b.err = j.put(b)
	j.mu.Lock()
	if b.err == nil {
		b.seg.live += int64(b.size)
		b.seg.held += b.records
	}
	if len(b.whole) == 0 {
		j.buffer = b.tail
	}
	j.mu.Unlock()
	b.pieces = pieces{}
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
	if j.manifest != nil {
		_, err := j.SetLagging(false)
		errs = append(errs, err)
	}
	for _, s := range j.segments {
		if !s.sealed {
			errs = append(errs, syncData(s.f)) // what was marked
		}
		errs = append(errs, s.f.Close())
	}
	if j.manifest != nil {
		errs = append(errs, j.manifest.close())
	}
	return errors.Join(errs...)
}
