package files

import (
	"bytes"
	"fmt"
	"strconv"
)

// noNewline follows a last line that has no newline.
const noNewline = "\\ No newline at end of file\n"

// unified writes changes as a unified diff, lines as the bytes they are. It is empty
// when nothing has changed.
func unified(oldName, newName string, old, new []byte, changes []change, context int) []byte {
	changes = wholeLines(old, new, changes)
	if len(changes) == 0 {
		return nil
	}
	u := &differ{old: old, new: new, context: context, oldLine: 1, newLine: 1}
	fmt.Fprintf(&u.out, "--- %s\n+++ %s\n", oldName, newName)
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && u.near(changes[n-1].oldEnd, changes[n].oldStart) {
			n++
		}
		u.hunk(changes[:n])
		changes = changes[n:]
	}
	return u.out.Bytes()
}

// wholeLines makes changes of whole lines of changes of bytes, and finds again what
// is the same inside them.
func wholeLines(old, new []byte, changes []change) []change {
	var all []change
	for i := 0; i < len(changes); {
		c := changes[i]
		start := lineStart(old, c.oldStart)
		c.newStart -= c.oldStart - start
		c.oldStart = start
		for i++; ; i++ {
			if !boundary(old, c.oldEnd) || !boundary(new, c.newEnd) {
				end := lineEnd(old, c.oldEnd)
				if i < len(changes) && changes[i].oldStart < end {
					c.oldEnd, c.newEnd = changes[i].oldEnd, changes[i].newEnd
					continue
				}
				c.newEnd += end - c.oldEnd
				c.oldEnd = end
			}
			// A change that begins in the line behind is another one; one at the very same
			// place is not.
			if i < len(changes) && changes[i].oldStart == c.oldEnd && changes[i].newStart == c.newEnd {
				c.oldEnd, c.newEnd = changes[i].oldEnd, changes[i].newEnd
				continue
			}
			break
		}
		for _, in := range lineChanges(old[c.oldStart:c.oldEnd], new[c.newStart:c.newEnd]) {
			one := change{in.oldStart + c.oldStart, in.oldEnd + c.oldStart, in.newStart + c.newStart, in.newEnd + c.newStart}
			if n := len(all); n > 0 && all[n-1].oldEnd == one.oldStart && all[n-1].newEnd == one.newStart {
				all[n-1].oldEnd, all[n-1].newEnd = one.oldEnd, one.newEnd
				continue
			}
			all = append(all, one)
		}
	}
	return all
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

// lineEnd is where the line at ends, behind its newline.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// differ writes the hunks.
type differ struct {
	old, new []byte
	context  int
	out      bytes.Buffer

	at               int // in old; the counts below are of the lines before it
	oldLine, newLine int // number of the line at
}

// near: the context of two changes touches.
func (u *differ) near(end, start int) bool {
	gap := u.old[end:start]
	for lines := 0; lines <= 2*u.context; lines++ {
		if len(gap) == 0 {
			return true
		}
		gap = gap[lineEnd(gap, 0):]
	}
	return false
}

// hunk writes changes that stand together.
func (u *differ) hunk(changes []change) {
	first, last := changes[0], changes[len(changes)-1]
	begin := first.oldStart
	for range u.context {
		if begin == u.at {
			break
		}
		begin = lineStart(u.old, begin-1)
	}
	end := last.oldEnd
	for range u.context {
		end = lineEnd(u.old, end)
	}
	skipped := countLines(u.old[u.at:begin])
	u.oldLine += skipped
	u.newLine += skipped
	newEnd := last.newEnd + end - last.oldEnd
	newBegin := first.newStart - (first.oldStart - begin)
	oldLines, newLines := countLines(u.old[begin:end]), countLines(u.new[newBegin:newEnd])
	fmt.Fprintf(&u.out, "@@ -%s +%s @@\n", lineRange(u.oldLine, oldLines), lineRange(u.newLine, newLines))
	for at, i := begin, 0; i <= len(changes); i++ {
		if i == len(changes) {
			u.lines(' ', u.old[at:end])
			break
		}
		c := changes[i]
		u.lines(' ', u.old[at:c.oldStart])
		u.lines('-', u.old[c.oldStart:c.oldEnd])
		u.lines('+', u.new[c.newStart:c.newEnd])
		at = c.oldEnd
	}
	u.at = end
	u.oldLine += oldLines
	u.newLine += newLines
}

func (u *differ) lines(mark byte, text []byte) {
	eachLine(text, func(_ int, line []byte) {
		u.out.WriteByte(mark)
		u.out.Write(line)
		if line[len(line)-1] != '\n' {
			u.out.WriteString("\n" + noNewline)
		}
	})
}

// countLines counts lines; a last one without newline is one.
func countLines(text []byte) int {
	n := bytes.Count(text, newline)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// lineRange names lines in the head of a hunk. No lines at all are named by the one
// before.
func lineRange(first, count int) string {
	switch count {
	case 0:
		return strconv.Itoa(first-1) + ",0"
	case 1:
		return strconv.Itoa(first)
	}
	return strconv.Itoa(first) + "," + strconv.Itoa(count)
}
