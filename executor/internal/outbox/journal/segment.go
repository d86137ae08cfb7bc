package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A segment begins with 32 bytes: u64 magic, u32 version, u32 CRC32C of the rest, u64
// size of the file (0 while it grows), u64 id.
const (
	segmentMagic   = 0x31676f6c63657865 // "execlog1"
	segmentVersion = 1
	segmentHeader  = 32
)

// segment is one file of records. What it is written to is guarded by Journal.io, how
// it stands by Journal.mu.
type segment struct {
	manifest *manifest
	id       uint64
	path     string
	f        *os.File
	size     int64
	end      atomic.Int64 // where the next record goes

	grows bool // it has no size of its own until it is sealed

	live    int64 // bytes of records that are needed
	held    int   // records whose Ref is not known yet to whoever moves them
	sealed  bool  // nothing is written to it any more
	damaged bool  // it is set aside, not removed, when it is empty

	syncing sync.Mutex // of what is below
	ended   *sync.Cond // of a sync
	named   bool       // its name is on the disk
	syncs   int        // going on
	synced  int64      // up to where it is on the disk
	failed  error      // of a sync; after one nobody knows what of it is on the disk
}

func newSegment(m *manifest, id uint64, path string, f *os.File, size int64) *segment {
	s := &segment{manifest: m, id: id, path: path, f: f, size: size, grows: size == 0}
	s.end.Store(segmentHeader)
	s.ended = sync.NewCond(&s.syncing)
	return s
}

// syncsAtOnce is how many syncs of a segment go on at once. One alone leaves a disk idle
// between the end of one and the beginning of the next.
const syncsAtOnce = 2

// syncTo returns when what is written up to end is on the disk. Each sync is for all
// that is written when it begins.
func (s *segment) syncTo(end int64) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	for s.failed == nil && s.synced < end {
		if s.syncs == syncsAtOnce || s.syncs > 0 && !s.named {
			s.ended.Wait()
			continue
		}
		s.syncs++
		written, named := s.end.Load(), s.named
		s.syncing.Unlock()
		err := s.sync(named)
		s.syncing.Lock()
		s.syncs--
		s.named = s.named || err == nil
		s.ended.Broadcast()
		if err != nil && s.failed == nil {
			s.failed = fmt.Errorf("sync the journal: %w", err)
		}
		if err == nil {
			s.synced = max(s.synced, written)
		}
	}
	return s.failed
}

// sync is one sync; the first one, of a file that is new, also brings its name to the
// disk and into the manifest.
func (s *segment) sync(named bool) error {
	if named {
		return syncData(s.f)
	}
	if err := s.f.Sync(); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	return s.manifest.add(s.id)
}

func segmentName(id uint64) string { return fmt.Sprintf("journal-%08d.log", id) }

// segmentID is that of a segment's file name; false for any other name.
func segmentID(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(name, ".log"), "journal-")
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, ok && err == nil && segmentName(id) == name
}

func headerOf(id uint64, size int64) []byte {
	h := make([]byte, segmentHeader)
	binary.LittleEndian.PutUint64(h[0:], segmentMagic)
	binary.LittleEndian.PutUint32(h[8:], segmentVersion)
	binary.LittleEndian.PutUint64(h[16:], uint64(size))
	binary.LittleEndian.PutUint64(h[24:], id)
	binary.LittleEndian.PutUint32(h[12:], crc32.Checksum(h[16:], castagnoli))
	return h
}

// errNewer is of files that a later version has written.
var errNewer = errors.New("was written by a newer version of this program; use that one, or another state directory")

// readHeader returns the size that a segment was made or sealed with; 0 while it grows.
func readHeader(b []byte) (size int64, err error) {
	if len(b) < segmentHeader || binary.LittleEndian.Uint64(b) != segmentMagic ||
		binary.LittleEndian.Uint32(b[12:]) != crc32.Checksum(b[16:segmentHeader], castagnoli) {
		return 0, errors.New("the beginning of the file is damaged")
	}
	if binary.LittleEndian.Uint32(b[8:]) > segmentVersion {
		return 0, errNewer
	}
	return int64(binary.LittleEndian.Uint64(b[16:])), nil
}

// makeSegment makes a file of its full size; size 0 is one that grows. It is on the disk
// when the first record of it is. On an error nothing is left.
func (j *Journal) makeSegment(id uint64, size int64) (s *segment, err error) {
	path := filepath.Join(j.dir, segmentName(id))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(headerOf(id, size)); err == nil {
		err = fill(f, segmentHeader, size)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return newSegment(j.manifest, id, path, f, size), nil
}

// fillBlock is how much of the pattern is written at once: more is not faster, and would be
// most of the memory that a start needs.
const fillBlock = 32 << 10

// fill writes the pattern from off up to size.
func fill(f *os.File, off, size int64) error {
	block := bytes.Repeat([]byte{pattern}, int(min(size, fillBlock)))
	for off < size {
		n, err := f.WriteAt(block[:min(int64(len(block)), size-off)], off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// fits reports whether n bytes more have their place in it.
func (s *segment) fits(n int) bool {
	size := s.size
	if s.grows {
		size = maxGrowing
	}
	end := s.end.Load()
	return end+int64(n) <= size || s.grows && end == segmentHeader
}

// Ref is where a record is. The zero Ref is none.
type Ref struct {
	seg    *segment
	off    int64
	length int    // padded, on disk
	own    string // file of its own of the body, "" = none
}

// IsZero reports whether it is no record's.
func (r Ref) IsZero() bool { return r.seg == nil }

// In reports whether the record is in that segment.
func (r Ref) In(s Segment) bool { return s.seg != nil && r.seg == s.seg }

// Len is how many bytes the record takes, without a body in a file of its own.
func (r Ref) Len() int { return r.length }

// File is the path of the segment.
func (r Ref) File() string { return r.seg.path }

// Overlaps reports whether the record is in a part of its segment.
func (r Ref) Overlaps(from, to int64) bool { return r.off < to && r.off+int64(r.length) > from }
