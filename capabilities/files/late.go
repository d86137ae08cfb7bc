package files

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/agent-executor/executor/capabilities"
)

// late is the hash of a large file that was read, on its way: to count the lines of a
// file takes a fifth of the time that its hash does, and a reader waits for the lines
// only. It runs in its session, which waits for it at its end.
type late struct {
	done    chan struct{} // closed when the rest is there
	content sum           // no content's when err is not nil
	err     error
}

// errChanged: what was hashed may be something else than what was read.
var errChanged = errors.New("changed since it was read")

// hashes are the hashes of large files by their stamps, for all sessions. It may be used
// concurrently; the zero value is ready.
type hashes struct {
	mu    sync.Mutex
	known map[sum]sum
}

// maxHashes bounds how many are kept.
const maxHashes = 4096

func (h *hashes) get(stamp sum) (content sum, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	content, ok = h.known[stamp]
	return content, ok
}

func (h *hashes) put(stamp, content sum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= maxHashes {
		h.known = map[sum]sum{} // they can be had again
	}
	h.known[stamp] = content
}

// hashLater begins to hash the file p, which has been read and had that stamp then. One
// file is hashed at a time, so that a reader of many leaves the machine to others.
func (f *Files) hashLater(s *capabilities.Session, p capabilities.Path, stamp sum) *late {
	h, seen := &late{done: make(chan struct{})}, seenBy(s)
	ctx := seen.ctx
	seen.hashing.Go(func() {
		defer close(h.done)
		select {
		case f.hashing <- struct{}{}:
			defer func() { <-f.hashing }()
		case <-ctx.Done():
			h.err = ctx.Err()
			return
		}
		var ok bool
		if h.content, ok = f.hashes.get(stamp); ok {
			return
		}
		if h.content, h.err = f.hashFile(ctx, p, stamp); h.err == nil {
			f.hashes.put(stamp, h.content)
		}
	})
	return h
}

// stampEvery is how many bytes are hashed before the next look whether that is still of
// use.
const stampEvery = 64 << 20

// hashFile hashes the file p as long as it has that stamp.
func (f *Files) hashFile(ctx context.Context, p capabilities.Path, stamp sum) (content sum, err error) {
	dir, name, err := p.OpenParent()
	if err != nil {
		return content, err
	}
	defer dir.Close()
	file, info, err := openIn(dir, name, p)
	if err != nil {
		return content, err
	}
	defer file.Close()
	if stampSum(info, p) != stamp {
		return content, errChanged
	}
	buffer := f.buffer()
	defer f.giveBack(buffer)
	src := newSource(ctx, file, buffer, true)
	for next := int64(stampEvery); ; next += stampEvery {
		for err == nil && src.raw.size < next {
			_, err = src.chunk()
		}
		if info, statErr := file.Stat(); statErr != nil || stampSum(info, p) != stamp {
			return content, errChanged
		}
		switch err {
		case nil:
		case io.EOF:
			return src.sum(), nil
		default:
			return content, err
		}
	}
}
