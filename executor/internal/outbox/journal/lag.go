package journal

import (
	"fmt"
	"slices"
)

// A sync is most of what a record costs. Whoever need not wait for it says so before with
// SetLagging, which the manifest keeps, with the name of the machine's present start. What
// was written survives the end of the process; and when the machine has been started anew
// since, Open reports a loss, so that nobody takes what is there for all.

// SetLagging says whether anybody relies on records that are written and may not be on the
// disk yet. False: that cannot be, since the start of the machine has no name here, or for
// the error. It is on the disk when it returns, as is, with no, all that was written before.
func (j *Journal) SetLagging(yes bool) (bool, error) {
	boot := j.boot
	if !yes {
		if err := j.finish(); err != nil {
			return false, err
		}
		boot = ""
	}
	if j.boot == "" || j.manifest.now().Lagging == boot {
		return boot != "", nil
	}
	err := j.manifest.change(func(l *listing) { l.Lagging = boot })
	if err != nil {
		j.manifest.forgetLagging() // it is written again before anybody relies on it
	}
	return boot != "" && err == nil, err
}

// finish brings to the disk what is written. A segment that was given up has nothing that
// anybody relies on.
func (j *Journal) finish() (err error) {
	j.mu.Lock()
	all := slices.Clone(j.segments)
	for _, s := range all {
		s.held++ // none is removed meanwhile
	}
	j.mu.Unlock()
	for _, s := range all {
		j.mu.Lock()
		end, empty := s.end.Load(), s.damaged
		j.mu.Unlock()
		if err == nil && !empty && end > segmentHeader {
			err = s.syncTo(end)
		}
		j.mu.Lock()
		s.held--
		j.mu.Unlock()
	}
	return err
}

func (m *manifest) forgetLagging() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.is.Lagging = ""
}

// wentDown reports whether the machine has been started anew while the journal lagged.
func (j *Journal) wentDown() bool {
	lagging := j.manifest.now().Lagging
	return lagging != "" && lagging != j.boot
}

// catchUp brings to the disk what a process that was killed has written.
func (j *Journal) catchUp() error {
	if j.manifest.now().Lagging == "" {
		return nil
	}
	for _, s := range j.segments {
		if err := s.f.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", s.path, err)
		}
	}
	if err := syncDir(j.dir); err != nil {
		return fmt.Errorf("sync %s: %w", j.dir, err)
	}
	return j.manifest.change(func(l *listing) { l.list(j.segments); l.Lagging = "" })
}
