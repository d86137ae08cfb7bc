package files

import (
	"container/list"
	"io/fs"
	"sort"
	"sync"
	"time"
)

const (
	// blockSize is how many bytes of a file one entry of its index is for.
	blockSize = 128 << 10
	// minIndexed is the size from which a file is worth an index.
	minIndexed = 1 << 20
	// maxIndexBlocks bounds all indexes together: 8 MiB of them know 128 GiB of files.
	maxIndexBlocks = 1 << 20
)

// index is what one pass over a large text has found, so that the next read goes to
// any line at once. It is immutable.
type index struct {
	stamp    sum // of the file as it was
	format   format
	content  sum
	hashed   bool // content is there
	size     int64
	total    int64   // lines
	unending bool    // the last line has no newline
	blocks   []int64 // newlines before each block
}

// find says where to begin to read for a line: at an offset before which there are so
// many newlines.
func (x *index) find(line int64) (offset, newlines int64) {
	// The block with the newline that ends the line before.
	i := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i] >= line-1 })
	if i == 0 {
		return 0, 0
	}
	return int64(i-1) * blockSize, x.blocks[i-1]
}

// end is an offset, or the size of the file, by which a line has ended.
func (x *index) end(line int64) int64 {
	i := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i] >= line })
	return min(int64(i)*blockSize, x.size)
}

// indexes keeps the indexes used last, for all sessions. It may be used concurrently;
// the zero value is ready.
type indexes struct {
	mu     sync.Mutex
	known  map[sum]*list.Element // of *index, by stamp
	order  list.List             // used last first
	blocks int
}

func (x *indexes) get(stamp sum) *index {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.known[stamp]
	if e == nil {
		return nil
	}
	x.order.MoveToFront(e)
	return e.Value.(*index)
}

func (x *indexes) put(n *index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known[n.stamp] != nil || len(n.blocks) > maxIndexBlocks {
		return
	}
	if x.known == nil {
		x.known = map[sum]*list.Element{}
	}
	x.known[n.stamp] = x.order.PushFront(n)
	x.blocks += len(n.blocks)
	for x.blocks > maxIndexBlocks {
		oldest := x.order.Remove(x.order.Back()).(*index)
		delete(x.known, oldest.stamp)
		x.blocks -= len(oldest.blocks)
	}
}

// settled reports that a change after now gives a file another stamp: its times are
// older than the clock of its file system can blur. Some count in two seconds.
func settled(info fs.FileInfo, now time.Time) bool {
	changed := changeTime(info)
	if info.ModTime().After(changed) {
		changed = info.ModTime()
	}
	blur := 100 * time.Millisecond
	if changed.Nanosecond() == 0 {
		blur = 3 * time.Second
	}
	return now.Sub(changed) > blur
}
