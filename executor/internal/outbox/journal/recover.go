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
// lost is reported. boot is the machine's present start, [Boot]. The error is of a disk
// that cannot be read or written, or of files of a newer version.
func Open(dir, boot string, found func(Record)) (*Journal, []Loss, error) {
	j := &Journal{dir: dir, boot: boot, nextID: 1, nextSize: firstSegment}
	ids, bodies, losses, err := j.list()
	if err != nil {
		return nil, nil, err
	}
	if len(ids) == 0 { // the directory may be new
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return nil, nil, fmt.Errorf("open the journal: %w", err)
		}
	}
	var problem string
	if j.manifest, problem, err = openManifest(dir); err != nil {
		return nil, nil, err
	}
	losses = append(losses, j.missing(ids, problem)...)
	used := map[string]bool{}
	visit := func(r Record) {
		used[r.Ref.own] = true
		j.seq = max(j.seq, r.Seq)
		found(r)
	}
	var all []*loaded
	for _, id := range ids {
		l, err := j.load(id, visit)
		if err != nil {
			_ = j.Close()
			return nil, nil, err
		}
		all = append(all, l)
	}
	for _, l := range slices.Backward(all) { // the newest of each kind is written on
		at := &j.active
		if l.seg.grows {
			at = &j.growing
		}
		if err := j.goOn(l, at); err != nil {
			_ = j.Close()
			return nil, nil, err
		}
		losses = append(losses, l.losses...)
	}
	err = j.judge(losses)
	if err == nil {
		err = j.catchUp()
	}
	if err != nil && !isFull(err) {
		_ = j.Close()
		return nil, nil, err
	}
	if j.active != nil {
		j.nextSize = min(2*j.active.size, maxSegment)
	} else {
		// There is room for what comes, also when the disk is full by then. When it is
		// full already, that is found out when something is to be written.
		_ = j.rotate(0)
	}
	if !j.spare {
		j.makeSpare()
	}
	for _, n := range bodies { // of which a crash has left no record
		j.bodies.Store(max(j.bodies.Load(), n))
		if name := bodyName(n); !used[name] {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
	return j, losses, nil
}

// missing compares what is there with what the manifest says.
func (j *Journal) missing(ids []uint64, problem string) (losses []Loss) {
	lose := func(file, what string) {
		losses = append(losses, Loss{File: filepath.Join(j.dir, file), What: what})
	}
	if problem != "" && len(ids) > 0 {
		lose(manifestName, problem+", so that nobody knows which files there should be")
	}
	is := j.manifest.now()
	for _, id := range is.Segments {
		j.nextID = max(j.nextID, id+1)
		if !slices.Contains(ids, id) {
			lose(segmentName(id), "the file is gone")
		}
	}
	if j.wentDown() {
		lose(manifestName, "the machine went down before the last records were on the disk: calls may have been accepted of which there is no record")
	}
	if is.Incomplete {
		lose(manifestName, "calls were accepted of which there is no record")
	}
	return losses
}

// judge makes the manifest say what is there, and that something was lost that may
// have been a call's: before what is damaged is set aside, so that a crash now does not
// hide it.
func (j *Journal) judge(losses []Loss) error {
	if len(losses) == 0 && j.manifest.made() {
		return nil
	}
	lost := slices.ContainsFunc(losses, func(l Loss) bool { return !l.Torn })
	return j.manifest.change(func(l *listing) {
		l.Incomplete = l.Incomplete || lost
		l.list(j.segments)
	})
}

// list finds the files of the journal. What is none, under the name of one, is set
// aside.
func (j *Journal) list() (ids, bodies []uint64, losses []Loss, err error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		id, isSegment := segmentID(name)
		n, isBody := bodyNumber(name)
		path := filepath.Join(j.dir, name)
		switch ours := isSegment || isBody || name == spareName || name == manifestName; {
		case ours && !e.Type().IsRegular():
			if err := os.Rename(path, path+damagedSuffix); err != nil {
				return nil, nil, nil, fmt.Errorf("open the journal: %s is not a regular file: %w", path, err)
			}
			if name != spareName {
				losses = append(losses, Loss{File: path, What: "it was not a regular file"})
			}
		case isSegment && id == 0: // a spare one that was not finished
			_ = os.Remove(path)
		case isSegment:
			ids = append(ids, id)
		case isBody:
			bodies = append(bodies, n)
		case name == spareName:
			j.spare = j.goodSpare(e)
		}
	}
	slices.Sort(ids)
	return ids, bodies, losses, nil
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

// loaded is a segment that was read.
type loaded struct {
	seg    *segment
	torn   *gap // its end, which is no record
	losses []Loss
}

func (l *loaded) lose(off, n int64, what string) {
	l.losses = append(l.losses, Loss{File: l.seg.path, Offset: off, Bytes: n, What: what})
	l.seg.damaged = true
}

// sealed says that nothing was being written to the segment, so that a torn end is
// damage.
func (l *loaded) sealed() {
	if l.torn != nil {
		l.lose(int64(l.torn.off), int64(l.torn.end-l.torn.off), "no record could be read")
	}
}

// load reads one segment.
func (j *Journal) load(id uint64, visit func(Record)) (*loaded, error) {
	path := filepath.Join(j.dir, segmentName(id))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	s := newSegment(j.manifest, id, path, f, 0)
	s.sealed, s.grows, s.named = true, false, true
	j.segments = append(j.segments, s) // Close closes it
	j.nextID = max(j.nextID, id+1)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	l := &loaded{seg: s}
	length := int64(len(b))
	s.size, err = readHeader(b)
	switch {
	case errors.Is(err, errNewer):
		return nil, fmt.Errorf("open the journal: %s %w", path, err)
	case err != nil:
		l.lose(0, min(length, segmentHeader), err.Error())
		s.size = length
	case s.size == 0:
		s.grows, s.size = true, length
	case length < s.size:
		l.lose(length, s.size-length, "the file was cut")
	case length > s.size:
		l.lose(s.size, length-s.size, "something was added behind the end of the file")
	}
	records, gaps, end := scan(b, segmentHeader)
	s.end.Store(int64(end))
	s.synced = int64(end) // see catchUp
	for _, r := range records {
		if r.badMark {
			l.lose(int64(r.off+markOffset), 4, "whether a record was acknowledged is damaged; it is taken for not")
		}
		ref := Ref{seg: s, off: int64(r.off), length: min(r.end, len(b)) - r.off} // its padding may be cut off
		n := int64(len(r.body))
		if own, ok := parseBodyRef(r.body); ok && r.flags&flagOwnFile != 0 {
			ref.own, n = bodyName(own.number), int64(own.length)
			j.bodies.Store(max(j.bodies.Load(), own.number)) // also of files that are gone: a name is used once
		}
		s.live += int64(ref.length)
		visit(Record{Kind: r.kind, Seq: r.seq, Head: r.head, Marked: r.marked, BodyLen: n, Ref: ref})
	}
	for i := range gaps {
		if g := &gaps[i]; g.last && len(gaps) == 1 && !s.damaged {
			l.torn = g
		} else {
			l.lose(int64(g.off), int64(g.end-g.off), "no record could be read")
		}
	}
	return l, nil
}

// goOn makes a segment that was being written the one to be written again. Its torn end
// is cut first, on disk, before anything is put there.
func (j *Journal) goOn(l *loaded, at **segment) error {
	s, end := l.seg, l.seg.end.Load()
	if s.damaged || s.size > maxGrowing || *at != nil || !s.grows && end == s.size {
		l.sealed()
		return nil
	}
	if l.torn != nil {
		l.losses = append(l.losses, Loss{File: s.path, Offset: end, Bytes: int64(l.torn.end) - end,
			What: "the last write was not finished, or its end is damaged", Torn: true})
	}
	var err error
	switch {
	case s.grows && end < s.size:
		err = s.f.Truncate(end)
	case !s.grows && l.torn != nil:
		err = fill(s.f, end, s.size)
	}
	if err == nil && l.torn != nil {
		err = s.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("cut the end of the journal: %w", err)
	}
	s.sealed = false
	*at = s
	return nil
}
