package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Record is one that Open has found. Head is valid during the call only. A record may
// come twice, from a copy that a crash has left: with the same Seq.
type Record struct {
	Kind    byte
	Seq     uint64
	Head    []byte
	Marked  bool
	BodyLen int64
	Ref     Ref
}

// Loss is a part of a file that held no record that could be read.
type Loss struct {
	File   string
	Offset int64
	Bytes  int64
	What   string
	// Torn is the end of what was being written when the process or the machine
	// ended: nobody was told that it was written.
	Torn bool
}

func (l Loss) String() string {
	return fmt.Sprintf("%s: %d bytes at %d: %s", l.File, l.Bytes, l.Offset, l.What)
}

// Open opens the journal in dir, which must be there and belong to this process alone,
// and hands over every record that is whole. It is not stopped by any damage: what was
// lost is reported. The error is of a disk that cannot be read or written, or of files
// of a newer version.
func Open(dir string, visit func(Record)) (*Journal, []Loss, error) {
	j := &Journal{dir: dir, nextID: 1, nextSize: firstSegment}
	ids, bodies, err := j.list()
	if err != nil {
		return nil, nil, err
	}
	var losses []Loss
	used := map[string]bool{}
	for i, id := range ids {
		lost, err := j.load(id, i == len(ids)-1, func(r Record) {
			used[r.Ref.own] = true
			visit(r)
		})
		if err != nil {
			_ = j.Close()
			return nil, nil, err
		}
		losses = append(losses, lost...)
		j.nextID = max(j.nextID, id+1)
	}
	for _, n := range bodies { // of which a crash has left no record
		j.bodies.Store(max(j.bodies.Load(), n))
		if name := bodyName(n); !used[name] {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
	return j, losses, nil
}

// list finds the files of the journal.
func (j *Journal) list() (ids, bodies []uint64, err error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		id, isSegment := segmentID(name)
		n, isBody := bodyNumber(name)
		if (isSegment || isBody || name == spareName) && !e.Type().IsRegular() {
			return nil, nil, fmt.Errorf("open the journal: %s is not a regular file; remove it", filepath.Join(j.dir, name))
		}
		switch {
		case isSegment && id == 0: // a spare one that was not finished
			_ = os.Remove(filepath.Join(j.dir, name))
		case isSegment:
			ids = append(ids, id)
		case isBody:
			bodies = append(bodies, n)
		case name == spareName:
			j.spare = j.goodSpare(e)
		}
	}
	slices.Sort(ids)
	return ids, bodies, nil
}

// goodSpare removes a spare segment that is not what it should be.
func (j *Journal) goodSpare(e os.DirEntry) bool {
	path := filepath.Join(j.dir, spareName)
	if info, err := e.Info(); err == nil && info.Size() == firstSegment {
		if b, err := os.ReadFile(path); err == nil && len(trimPattern(b[segmentHeader:])) == 0 {
			return true
		}
	}
	_ = os.Remove(path)
	return false
}

// load reads one segment. The last one is written on when it is whole but for its end.
func (j *Journal) load(id uint64, last bool, visit func(Record)) (losses []Loss, err error) {
	path := filepath.Join(j.dir, segmentName(id))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	s := &segment{id: id, path: path, f: f, sealed: true}
	j.segments = append(j.segments, s) // Close closes it
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	lose := func(off, n int, what string) {
		losses = append(losses, Loss{File: path, Offset: int64(off), Bytes: int64(n), What: what})
		s.damaged = true
	}
	size, err := readHeader(b)
	switch {
	case errors.Is(err, errNewer):
		return nil, fmt.Errorf("open the journal: %s %w", path, err)
	case err != nil:
		lose(0, min(len(b), segmentHeader), err.Error())
		size = int64(len(b))
	case int64(len(b)) < size:
		lose(len(b), int(size)-len(b), "the file was cut")
	case int64(len(b)) > size:
		lose(int(size), len(b)-int(size), "something was added behind the end of the file")
	}
	s.size = size

	records, gaps, end := scan(b, segmentHeader)
	for _, r := range records {
		if r.badMark {
			lose(r.off+markOffset, 4, "whether a record was acknowledged is damaged; it is taken for not")
		}
		ref := Ref{seg: s, off: int64(r.off), length: r.end - r.off}
		n := int64(len(r.body))
		if own, ok := parseBodyRef(r.body); ok && r.flags&flagOwnFile != 0 {
			ref.own, n = bodyName(own.number), int64(own.length)
			j.bodies.Store(max(j.bodies.Load(), own.number)) // also of files that are gone: a name is used once
		}
		if r.end > len(b) { // the padding was cut off
			ref.length = len(b) - r.off
		}
		s.live += int64(ref.length)
		j.seq = max(j.seq, r.seq)
		visit(Record{Kind: r.kind, Seq: r.seq, Head: r.head, Marked: r.marked, BodyLen: n, Ref: ref})
	}
	torn := last && !s.damaged && len(gaps) == 1 && gaps[0].last
	for _, g := range gaps {
		if torn {
			losses = append(losses, Loss{File: path, Offset: int64(g.off), Bytes: int64(g.end - g.off), What: "the last write was not finished, or its end is damaged", Torn: true})
			break
		}
		lose(g.off, g.end-g.off, "no record could be read")
	}
	if last && !s.damaged && size <= maxSegment {
		return losses, j.writeOn(s, int64(end), torn)
	}
	return losses, nil
}

// writeOn makes the last segment the active one again. A torn end is cut first: filled
// with the pattern, on disk, before anything is written behind it.
func (j *Journal) writeOn(s *segment, end int64, torn bool) error {
	if torn {
		err := fill(s.f, end, s.size)
		if err == nil {
			err = syncData(s.f)
		}
		if err != nil {
			return fmt.Errorf("cut the end of the journal: %w", err)
		}
	}
	s.end, s.sealed = end, false
	j.active, j.nextSize = s, min(2*s.size, maxSegment)
	return nil
}
