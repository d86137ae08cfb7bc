package capabilities

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxNamed is how many bytes of a name from an input are repeated in a message,
// and maxListed how many known names are listed.
const (
	maxNamed  = 64
	maxListed = 30
)

// unknownMember says that the member at the end of the path is not one of n's.
func (c *inputCheck) unknownMember(n *node) string {
	name := unescape(c.path[len(c.path)-1].name)
	text := c.where("") + ": unknown member"
	if near := nearest(name, n.fields); near != "" {
		return text + fmt.Sprintf("; did you mean %q?", near)
	}
	switch len(n.fields) {
	case 0:
		return text + "; there are none"
	case 1:
		return text + "; the only one is " + n.fields[0].name
	}
	var known []string
	for _, f := range n.fields[:min(len(n.fields), maxListed)] {
		known = append(known, f.name)
	}
	if len(n.fields) > maxListed {
		known = append(known, "…")
	}
	return text + "; known are " + strings.Join(known, ", ")
}

// where writes the path to here, and to the member of that name when there is
// one: edits[2].old_text.
func (c *inputCheck) where(member string) string {
	var b strings.Builder
	for _, s := range c.path {
		if s.name == nil {
			fmt.Fprintf(&b, "[%d]", s.index)
			continue
		}
		dot(&b)
		b.WriteString(shown(unescape(s.name)))
	}
	if member != "" {
		dot(&b)
		b.WriteString(member)
	}
	if b.Len() == 0 {
		return "input"
	}
	return b.String()
}

func dot(b *strings.Builder) {
	if b.Len() > 0 {
		b.WriteByte('.')
	}
}

var plainMember = shortName{"", regexp.MustCompile(`^[\w$@-]+$`)}

// shown quotes a name from an input unless it is plain, and cuts a long one.
func shown(name string) string {
	if plainMember.MatchString(name) {
		return name
	}
	return strconv.Quote(cleanText(name, maxNamed))
}

// clip cuts a number that came.
func clip(text []byte) string {
	if len(text) > maxNamed {
		return string(text[:maxNamed]) + "…"
	}
	return string(text)
}

// came names what kind of value raw is; it does not repeat strings, which may be
// long or secret.
func came(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	}
	if isNumber(raw[0]) {
		return "the number " + clip(raw)
	}
	return clip(raw) // true, false, null
}

// nearest finds the known name that name most probably stands for, or "": the one
// with the fewest typing errors, else one that is part of the other, as timeout is
// of timeout_ms. Case, underscores and hyphens make no difference.
func nearest(name string, fields []field) string {
	name = fold(cleanText(name, maxNamed))
	best, fewest := "", max(1, len(name)/3)
	for _, f := range fields {
		known := fold(f.name)
		d := distance(name, known)
		if min(len(name), len(known)) >= 3 && (strings.Contains(name, known) || strings.Contains(known, name)) {
			d = min(d, max(1, len(name)/3))
		}
		if d < len(name) && (d < fewest || d == fewest && best == "") {
			best, fewest = f.name, d
		}
	}
	return best
}

var foldName = strings.NewReplacer("_", "", "-", "")

func fold(name string) string { return foldName.Replace(strings.ToLower(name)) }

// distance counts the bytes to insert, delete, replace or swap with the next one
// to get from a to b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
