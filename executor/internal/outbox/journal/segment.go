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
)

// A segment begins with 32 bytes: u64 magic, u32 version, u32 CRC32C of the rest, u64
// size of the file (0 while it grows), u64 id.
const (
	segmentMagic   = 0x31676f6c63657865 // "execlog1"
	segmentVersion = 1
	segmentHeader  = 32
)

// segment is one file of records. Its end is guarded by Journal.io, what is below it by
// Journal.mu.
type segment struct {
	id   uint64
	path string
	f    *os.File
	size int64
	end  int64 // where the next record goes

	grows bool // it has no size of its own until it is sealed

	live    int64 // bytes of records that are needed
	sealed  bool  // nothing is written to it any more
	damaged bool  // it is set aside, not removed, when it is empty
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

// makeSegment makes a file of its full size, on disk; size 0 is one that grows. On an
// error nothing is left.
func makeSegment(dir string, id uint64, size int64) (s *segment, err error) {
	path := filepath.Join(dir, segmentName(id))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(headerOf(id, size)); err == nil {
		err = fill(f, segmentHeader, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return &segment{id: id, path: path, f: f, size: size, end: segmentHeader, grows: size == 0}, nil
}

// fill writes the pattern from off up to size.
func fill(f *os.File, off, size int64) error {
	block := bytes.Repeat([]byte{pattern}, int(min(size, 256<<10)))
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
	return s.end+int64(n) <= size || s.grows && s.end == segmentHeader
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
