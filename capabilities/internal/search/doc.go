// Package search finds files by name and lines by content, below one directory of a
// session's workspace.
//
//	found, err := search.Glob(ctx, workspace, search.GlobOptions{Pattern: "**/*.go"})
//	lines, err := search.Grep(ctx, workspace, search.GrepOptions{Pattern: `func \w+Error`})
//
// Its parts: start.go turns a path into an open directory, dir.go and its kin read
// directories through handles, walk.go goes through a tree in parallel, ignore.go and
// wild.go say what .gitignore leaves out, pattern.go what a glob matches. grep.go, scan.go
// and line.go search one file after the other; regexp.go, literal.go and dfa.go find the
// lines that are worth a look.
//
// No symbolic link is followed below the start, nothing but regular files is opened, and
// every name is opened relative to the handle of its directory: a tree that changes
// meanwhile can hide something from a search but not lead it out of the workspace.
//
// Results are the same however many goroutines work: a search always goes to its end,
// counts all, and keeps the first ones in its order. It ends early only with its context.
package search

// Skipped is what a search left out or could not look at. The numbers are entries of
// directories; a directory that is left out is one, whatever is below.
type Skipped struct {
	Hidden  int // names that begin with a dot
	Ignored int // by .gitignore, .ignore and .git/info/exclude
	Links   int // symbolic links, which grep does not follow
	Special int // FIFOs, devices, sockets
	Binary  int // files that grep took for binary: they have a NUL
	TooLong int // files with more text than a multiline search takes

	// Unreadable are the first MaxUnreadable things that could not be opened or read, in order of
	// their paths, and UnreadableCount says how many there are.
	Unreadable      []Unreadable
	UnreadableCount int
}

// Unreadable is something that a search could not look into.
type Unreadable struct {
	Path   string `json:"path"` // quoted by capabilities.QuoteName
	Reason string `json:"reason"`
}

// MaxUnreadable is how many paths Skipped.Unreadable names at most.
const MaxUnreadable = 20

func (s *Skipped) add(o *Skipped) {
	s.Hidden += o.Hidden
	s.Ignored += o.Ignored
	s.Links += o.Links
	s.Special += o.Special
	s.Binary += o.Binary
	s.TooLong += o.TooLong
	s.Unreadable = append(s.Unreadable, o.Unreadable...)
	s.UnreadableCount += o.UnreadableCount
}
