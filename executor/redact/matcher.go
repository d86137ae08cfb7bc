package redact

import (
	"encoding/binary"
	"sort"
)

// matcher finds many texts at once, each at least MinLength long. It does not change. A nil one finds none.
//
// It looks at three bytes of the text at a time, and skips as far as these three can be from the end of the
// first bytes of a pattern (Wu and Manber): most of a text is never looked at, and the table is small enough to
// stay in the fastest cache.
type matcher struct {
	patterns []string // sorted
	longest  int
	window   int // how many first bytes of each pattern are in the table
	skip     [tableSize]uint8
	begins   [256]bool // the first bytes of patterns
	// candidates are the patterns whose window ends with a block, by its slot.
	candidates map[uint32][]candidate
}

type candidate struct {
	head    uint64 // the first 8 bytes
	pattern string
}

const (
	tableBits = 13
	tableSize = 1 << tableBits
	blockSize = 3
	maxWindow = 64
)

// slot is where a block of three bytes is in the table.
func slot(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * 0x9e3779b1 >> (32 - tableBits)
}

// newMatcher makes one for patterns that are sorted and differ, and are joined; nil for none.
func newMatcher(patterns []string) *matcher {
	if len(patterns) == 0 {
		return nil
	}
	m := &matcher{patterns: patterns, window: maxWindow, candidates: map[uint32][]candidate{}}
	for _, p := range patterns {
		m.longest = max(m.longest, len(p))
		m.window = min(m.window, len(p))
		m.begins[p[0]] = true
	}
	far := uint8(m.window - blockSize + 1)
	for i := range m.skip {
		m.skip[i] = far
	}
	for _, p := range patterns {
		for end := blockSize; end <= m.window; end++ {
			at := slot(p[end-3], p[end-2], p[end-1])
			m.skip[at] = min(m.skip[at], uint8(m.window-end))
			if end == m.window {
				m.candidates[at] = append(m.candidates[at], candidate{binary.LittleEndian.Uint64([]byte(p[:8])), p})
			}
		}
	}
	return m
}

// find calls found for each place where a pattern is, also for those that overlap, by rising beginnings.
func (m *matcher) find(p []byte, found func(from, to int)) {
	if m == nil {
		return
	}
	for end := m.window; end <= len(p); {
		at := slot(p[end-3], p[end-2], p[end-1])
		if s := m.skip[at]; s > 0 {
			end += int(s)
			continue
		}
		from := end - m.window
		head := binary.LittleEndian.Uint64(p[from:])
		longest := 0
		for _, c := range m.candidates[at] {
			if c.head == head && len(c.pattern) > longest && len(p)-from >= len(c.pattern) && string(p[from:from+len(c.pattern)]) == c.pattern {
				longest = len(c.pattern)
			}
		}
		if longest > 0 {
			found(from, from+longest)
		}
		end++
	}
}

// span is a part of a text.
type span struct{ from, to int }

// spans are the parts that patterns cover, in order, with overlapping ones made one.
func (m *matcher) spans(p []byte) (list []span) {
	if m == nil {
		return nil
	}
	var j joined
	j.join(p, false)
	j.find(m, func(from, to int) {
		if n := len(list); n > 0 && from < list[n-1].to {
			list[n-1].to = max(list[n-1].to, to)
			return
		}
		list = append(list, span{from, to})
	})
	return list
}

// unfinished is the length of the longest end of p that is the beginning of a pattern and not all of it.
func (m *matcher) unfinished(p []byte) int {
	if m == nil {
		return 0
	}
	for i := max(0, len(p)-m.longest+1); i < len(p); i++ {
		if m.begins[p[i]] && m.beginning(p[i:]) {
			return len(p) - i
		}
	}
	return 0
}

// beginning says whether a pattern begins with s and goes on.
func (m *matcher) beginning(s []byte) bool {
	i := sort.Search(len(m.patterns), func(i int) bool { return m.patterns[i] > string(s) })
	return i < len(m.patterns) && len(m.patterns[i]) > len(s) && m.patterns[i][:len(s)] == string(s)
}
