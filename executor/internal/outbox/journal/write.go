package journal

import (
	"fmt"
	"os"
	"path/filepath"
)

// put writes a batch. A large one goes to a segment that grows, unless the disk is
// full; anything else to a segment that is there.
func (j *Journal) put(b *batch) error {
	if j.closed {
		return ErrClosed
	}
	if b.size >= bulk {
		if err := j.putTo(b, &j.growing, j.grow); !isFull(err) {
			return err
		}
	}
	return j.putTo(b, &j.active, j.rotate)
}

// putTo writes a batch to the segment at, or to a new one when it does not fit or that
// one cannot be written any more.
func (j *Journal) putTo(b *batch, at **segment, next func(need int) error) error {
	for attempt := 0; ; attempt++ {
		if *at == nil || !(*at).fits(b.size) {
			if err := next(b.size); err != nil {
				return err
			}
		}
		s := *at
		end := s.end.Load()
		err := b.writeTo(s.f, end)
		if err == nil {
			b.seg, b.base, b.end = s, end, end+int64(b.size)
			s.end.Store(b.end)
			return nil
		}
		if isFull(err) && s.grows && s.f.Truncate(end) == nil {
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

// abandon has nothing more written to a segment.
func (j *Journal) abandon(s *segment) {
	j.io.Lock()
	defer j.io.Unlock()
	j.seal(s, true)
	if j.active == s {
		j.active = nil
	}
	if j.growing == s {
		j.growing = nil
	}
}

// grow makes a segment the growing one.
func (j *Journal) grow(int) error {
	s, err := j.makeSegment(j.nextID, 0)
	if err != nil {
		return fmt.Errorf("make a segment of the journal: %w", err)
	}
	if old := j.growing; old != nil {
		// Its end is known now: from here on a cut is not taken for a write that was not
		// finished. It need not be on the disk at once.
		old.size = old.end.Load()
		_, _ = old.f.WriteAt(headerOf(old.id, old.size), 0)
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
	if !j.manifest.made() { // there was no room for it: without it no segment is to be found
		if err := j.manifest.change(func(*listing) {}); err != nil {
			return err
		}
	}
	least := int64(segmentHeader + need)
	size := max(j.nextSize, least)
	s, err := j.makeSegment(j.nextID, size)
	for err != nil && isFull(err) && size > max(minSegment, least) {
		size = max(size/2, minSegment, least)
		s, err = j.makeSegment(j.nextID, size)
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
	s, err := j.makeSegment(0, firstSegment)
	if err != nil {
		return
	}
	_ = s.f.Sync()
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
			err = os.Rename(filepath.Join(j.dir, spareName), path)
		}
		if err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take the spare segment of the journal: %w (%w)", err, full)
	}
	j.spare = false
	return newSegment(j.manifest, j.nextID, path, f, firstSegment), nil
}
