package search

import (
	"slices"
	"strings"
)

// comparePaths orders paths as a walk that takes names in order meets them: a/b before a-b.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			switch {
			case a[i] == '/':
				return -1
			case b[i] == '/':
				return 1
			case a[i] < b[i]:
				return -1
			}
			return 1
		}
	}
	return len(a) - len(b)
}

// sort puts what is named in order and drops what is too much.
func (s *Skipped) sort() {
	slices.SortFunc(s.Unreadable, func(a, b Unreadable) int { return strings.Compare(a.Path, b.Path) })
	s.Unreadable = s.Unreadable[:min(len(s.Unreadable), MaxUnreadable)]
}
