package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// slack is how many bytes of records that are not needed any more are left alone.
const slack = 1 << 20

// keepDamaged is how many damaged files stay for somebody to look at.
const keepDamaged = 4

// Segment is one that is to be emptied.
type Segment struct{ seg *segment }

// Victim returns the segment that is most worth to be emptied: a damaged one, else the
// one with the least that is needed when at least as much is not needed as is. false
// when none is. Its records are to be copied or dropped, then Remove is called. One
// caller at a time.
func (j *Journal) Victim() (Segment, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var size, live int64
	var worst *segment
	for _, s := range j.segments {
		if !s.sealed || s.held > 0 {
			continue
		}
		if s.damaged {
			return Segment{s}, true
		}
		size += s.size
		live += s.live
		if worst == nil || s.live*worst.size < worst.live*s.size {
			worst = s
		}
	}
	if worst == nil || size < 2*live+slack {
		return Segment{}, false
	}
	return Segment{worst}, true
}

// Copy stages a record again, as it is, with its place in the order and the mark it is
// to have. Wait has to be called.
func (j *Journal) Copy(r Ref, marked bool) (*Staged, error) {
	f, err := r.parse()
	if err != nil {
		return nil, err
	}
	return j.Stage(Entry{Kind: f.kind, Head: f.head, Body: f.body, flags: f.flags, seq: f.seq, Marked: marked, Sync: true}), nil
}

// Shrink is Copy of the head alone, under another kind.
func (j *Journal) Shrink(r Ref, kind byte) (*Staged, error) {
	f, err := r.parse()
	if err != nil {
		return nil, err
	}
	return j.Stage(Entry{Kind: kind, Head: f.head, seq: f.seq, Sync: true}), nil
}

// Moved says that a record was copied, so that the one it was copied from is not needed.
func (j *Journal) Moved(r Ref) {
	r.own = "" // it is the copy's now
	j.Drop(r)
}

// Remove removes a segment from which nothing is needed any more. A damaged one is
// set aside under another name.
func (j *Journal) Remove(s Segment) error {
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	j.segments = slices.DeleteFunc(j.segments, func(other *segment) bool { return other == s.seg })
	j.mu.Unlock()
	err := j.manifest.remove(s.seg.id)
	if err != nil {
		return err // the file stays, and is found again
	}
	err = s.seg.f.Close()
	if s.seg.damaged {
		return errors.Join(err, setAside(j.dir, s.seg.path))
	}
	return errors.Join(err, os.Remove(s.seg.path))
}

const damagedSuffix = ".damaged"

// setAside keeps a damaged file for somebody to look at, and not too many of them.
func setAside(dir, path string) error {
	if err := os.Rename(path, path+damagedSuffix); err != nil {
		return fmt.Errorf("set a damaged file aside: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var old []string // sorted by name, so by age
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), damagedSuffix) {
			old = append(old, e.Name())
		}
	}
	for len(old) > keepDamaged {
		if err := os.Remove(filepath.Join(dir, old[0])); err != nil {
			return err
		}
		old = old[1:]
	}
	return nil
}
