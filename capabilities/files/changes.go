package files

import (
	"bytes"
	"slices"

	"github.com/aymanbagabas/go-udiff"
)

// change says that old[oldStart:oldEnd] became new[newStart:newEnd]; what is between
// two changes is the same in both. In a list changes are in order and do not overlap.
type change struct{ oldStart, oldEnd, newStart, newEnd int }

// maxGap bounds, in bytes, what is compared line by line between two anchors; a larger
// piece is shown as replaced.
const maxGap = 4 << 20

// lineChanges compares two texts by lines. Lines that are there once in both are the
// anchors; between them the shortest way is looked for within a bounded effort.
func lineChanges(old, new []byte) []change {
	head, tail := commonEnds(old, new)
	old, new = old[head:len(old)-tail], new[head:len(new)-tail]
	var all []change
	a, b := 0, 0
	gap := func(oldEnd, newEnd int) {
		for _, c := range gapChanges(old[a:oldEnd], new[b:newEnd]) {
			all = append(all, change{c.oldStart + a + head, c.oldEnd + a + head, c.newStart + b + head, c.newEnd + b + head})
		}
	}
	for _, m := range anchors(old, new) {
		if m.oldStart < a || m.newStart < b {
			continue
		}
		gap(m.oldStart, m.newStart)
		a, b = m.oldEnd, m.newEnd
	}
	gap(len(old), len(new))
	return all
}

// commonEnds is how many bytes of whole lines are the same at both ends.
func commonEnds(old, new []byte) (head, tail int) {
	head = commonHead(old, new)
	for head > 0 && old[head-1] != '\n' && (head < len(old) || head < len(new)) {
		head--
	}
	old, new = old[head:], new[head:]
	for n := min(len(old), len(new)); tail < n && old[len(old)-1-tail] == new[len(new)-1-tail]; {
		tail++
	}
	// Back to where a line begins in both.
	for tail > 0 && !(boundary(old, len(old)-tail) && boundary(new, len(new)-tail)) {
		tail--
	}
	return head, tail
}

func commonHead(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+4096 <= n && bytes.Equal(a[i:i+4096], b[i:i+4096]); i += 4096 {
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// boundary: a line begins at i.
func boundary(text []byte, i int) bool { return i == 0 || text[i-1] == '\n' }

func gapChanges(old, new []byte) []change {
	head, tail := commonEnds(old, new)
	o, n := old[head:len(old)-tail], new[head:len(new)-tail]
	switch {
	case len(o) == 0 && len(n) == 0:
		return nil
	case len(o) == 0 || len(n) == 0 || len(o)+len(n) > maxGap:
		return []change{{head, head + len(o), head, head + len(n)}}
	}
	var all []change
	shift := 0
	for _, e := range udiff.Lines(string(o), string(n)) {
		from, to := e.Start+head, e.End+head
		all = append(all, change{from, to, from + shift, from + shift + len(e.New)})
		shift += len(e.New) - (e.End - e.Start)
	}
	return all
}

// anchors are the lines that are there exactly once in both texts, as many as are in
// the same order in both.
func anchors(old, new []byte) []change {
	type place struct{ old, new, oldCount, newCount int }
	places := map[string]*place{}
	eachLine(old, func(at int, line []byte) {
		p := places[string(line)]
		if p == nil {
			p = &place{}
			places[string(line)] = p
		}
		p.old = at
		p.oldCount++
	})
	var all []change
	eachLine(new, func(at int, line []byte) {
		if p := places[string(line)]; p != nil {
			p.new = at
			p.newCount++
		}
	})
	eachLine(old, func(at int, line []byte) {
		if p := places[string(line)]; p.oldCount == 1 && p.newCount == 1 {
			all = append(all, change{at, at + len(line), p.new, p.new + len(line)})
		}
	})
	return rising(all)
}

func eachLine(text []byte, f func(at int, line []byte)) {
	for at := 0; at < len(text); {
		n := len(text) - at
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			n = i + 1
		}
		f(at, text[at:at+n])
		at += n
	}
}

// rising is the longest part of all, which is in order of old, that is also in order
// of new.
func rising(all []change) []change {
	before := make([]int, len(all)) // the one before in the best row that ends here
	var ends []int                  // of the best row of each length, the one with the smallest end
	for i, c := range all {
		at, _ := slices.BinarySearchFunc(ends, c.newStart, func(e, newStart int) int { return all[e].newStart - newStart })
		before[i] = -1
		if at > 0 {
			before[i] = ends[at-1]
		}
		if at == len(ends) {
			ends = append(ends, i)
		} else {
			ends[at] = i
		}
	}
	row := make([]change, len(ends))
	if len(ends) == 0 {
		return row
	}
	for i, at := len(ends)-1, ends[len(ends)-1]; i >= 0; i, at = i-1, before[at] {
		row[i] = all[at]
	}
	return row
}
