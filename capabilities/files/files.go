// Package files is the capability that reads and changes files in a session's
// workspace. It is registered with the executor in one line:
//
//	ex.Register(files.New(files.Options{Roots: roots}))
//
// One verb has one file: read.go, write.go, edit.go, multiedit.go, list.go, stat.go, glob.go, grep.go,
// diff.go, mkdir.go, move.go, copy.go, delete.go, executable.go. They share
//
//   - how a path becomes something open without leaving the roots: open.go for a file
//     that is read, target.go for one whose content changes, place.go for a name that
//     is moved, copied or deleted;
//   - locks.go (one lock per real file) and seen.go (what the session has read);
//   - text.go, lines.go, page.go (bytes to text, and a window of lines in bounded
//     memory), index.go and slice.go (any line of a large
//     file at once), late.go (its hash);
//   - match.go and nomatch.go (where an edit's text is, or why not), changes.go and
//     unified.go (what differs), walk.go and copytree.go (trees, by handles), fit.go.
//
// The stale-write rule: a file that is there may be overwritten when this session
// has read or written it and its content is still the one seen then, by SHA-256; it
// may be edited also when this session has never seen it. Checking and writing happen
// under one lock per real file, which holds for all sessions of the executor.
package files

import (
	"bufio"
	"context"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// Options: zero fields are the defaults.
type Options struct {
	// Roots is what is advertised. What a session may touch is its own workspace.
	Roots []capabilities.Root

	MaxLines      int   // lines that read shows when the call does not say; 0 = 2,000
	MaxLineChars  int   // characters of a line that read shows; 0 = 2,000
	MaxTextBytes  int   // bytes of read's text; 0 = protocol.DefaultInlineResult
	MaxFullBytes  int   // bytes of read's text when the call asks for all; 0 = 256 KiB
	MaxImageBytes int64 // bytes of an image that is shown; 0 = 5 MiB
}

// Files is the capability. It serves all sessions at once; what it does for a session
// has ended when the session has, and there is nothing to close.
type Files struct {
	opts    Options
	locks   locks
	indexes indexes
	hashes  hashes
	hashing chan struct{} // holds a value while something is hashed late
	buffers sync.Pool     // of *bufio.Reader
}

// New makes the capability.
func New(o Options) *Files {
	if o.MaxLines <= 0 {
		o.MaxLines = 2000
	}
	if o.MaxLineChars <= 0 {
		o.MaxLineChars = 2000
	}
	if o.MaxTextBytes <= 0 {
		o.MaxTextBytes = protocol.DefaultInlineResult
	}
	if o.MaxFullBytes <= 0 {
		o.MaxFullBytes = 256 << 10
	}
	if o.MaxImageBytes <= 0 {
		o.MaxImageBytes = 5 << 20
	}
	f := &Files{opts: o, hashing: make(chan struct{}, 1)}
	f.buffers.New = func() any { return bufio.NewReaderSize(nil, bufferSize) }
	return f
}

// Name is the key under which the capability is advertised.
func (f *Files) Name() string { return protocol.CapabilityFiles }

// Install registers the tools.
func (f *Files) Install(r *capabilities.Registrar) error {
	details := protocol.FilesDetails{Enabled: true, ReadRoots: []string{}, WriteRoots: []string{}}
	for _, root := range f.opts.Roots {
		details.ReadRoots = append(details.ReadRoots, root.Path)
		if !root.ReadOnly {
			details.WriteRoots = append(details.WriteRoots, root.Path)
		}
	}
	r.Advertise(details)
	r.OnSessionStart(func(_ context.Context, s *capabilities.Session) error {
		ctx, end := context.WithCancel(s.Context())
		s.SetValue(seenKey{}, &seen{ctx: ctx, end: end})
		return nil
	})
	r.OnSessionEnd(func(s *capabilities.Session) { seenBy(s).close() })
	f.addRead(r)
	f.addWrite(r)
	f.addEdit(r)
	f.addMultiEdit(r)
	f.addDiff(r)
	f.addList(r)
	f.addStat(r)
	f.addMkdir(r)
	f.addMove(r)
	f.addCopy(r)
	f.addDelete(r)
	f.addSetExecutable(r)
	f.addGlob(r)
	f.addGrep(r)
	return nil
}
