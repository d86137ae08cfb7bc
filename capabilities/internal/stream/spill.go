package stream

import (
	"fmt"
	"io"
	"sync"
)

// Spill keeps raw bytes: in memory while they are few, in a file as soon as they exceed a threshold, and
// not at all beyond a maximum. Its methods may be called concurrently; the file belongs to whoever
// opened it.
type Spill struct {
	threshold int
	most      int64
	open      func() (io.Writer, error)

	mu      sync.Mutex
	held    []byte
	to      io.Writer
	written int64
	lost    int64
	err     error
}

// NewSpill makes a spill that calls open once, with the first byte above the threshold, and keeps at
// most most bytes.
func NewSpill(threshold int, most int64, open func() (io.Writer, error)) *Spill {
	return &Spill{threshold: threshold, most: most, open: open}
}

// Write takes the next bytes. It never fails: a file that cannot be written is told by State.
func (s *Spill) Write(p []byte) (int, error) {
	size := len(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := s.most - s.written - int64(len(s.held)); int64(len(p)) > room {
		s.lost += int64(len(p)) - max(0, room)
		p = p[:max(0, room)]
	}
	switch {
	case s.err != nil:
		s.lost += int64(len(p))
	case s.to != nil:
		s.put(p)
	case len(s.held)+len(p) <= s.threshold:
		s.held = append(s.held, p...)
	default:
		s.to, s.err = s.open()
		if s.err != nil {
			s.err = fmt.Errorf("open spill file: %w", s.err)
			s.lost += int64(len(s.held) + len(p))
		} else {
			s.put(s.held)
			s.put(p)
		}
		s.held = nil
	}
	return size, nil
}

func (s *Spill) put(p []byte) {
	if s.err != nil {
		s.lost += int64(len(p))
		return
	}
	n, err := s.to.Write(p)
	s.written += int64(n)
	if err != nil {
		s.lost += int64(len(p) - n)
		s.err = fmt.Errorf("write spill file: %w", err)
	}
}

// SpillState says what became of the bytes.
type SpillState struct {
	Opened  bool  // there is a file
	Written int64 // bytes in it
	Lost    int64 // bytes that are not: above the maximum, or after an error
	Err     error
}

// State says what became of the bytes so far.
func (s *Spill) State() SpillState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SpillState{Opened: s.to != nil, Written: s.written, Lost: s.lost, Err: s.err}
}
