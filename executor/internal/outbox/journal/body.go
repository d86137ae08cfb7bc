package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// BodyLimit is the longest body that is kept beside its record. A longer one has a
// file of its own, so that the log stays small and moving records cheap.
const BodyLimit = 256 << 10

// bodyRef is what stands in a record for a body in a file of its own: u64 number of
// the file, u64 length, u32 CRC32C.
type bodyRef struct {
	number uint64
	length uint64
	sum    uint32
}

const bodyRefLen = 20

func (r bodyRef) bytes() []byte {
	b := binary.LittleEndian.AppendUint64(nil, r.number)
	b = binary.LittleEndian.AppendUint64(b, r.length)
	return binary.LittleEndian.AppendUint32(b, r.sum)
}

func parseBodyRef(b []byte) (bodyRef, bool) {
	if len(b) != bodyRefLen {
		return bodyRef{}, false
	}
	return bodyRef{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])}, true
}

func bodyName(number uint64) string { return fmt.Sprintf("body-%08d", number) }

func bodyNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "body-")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && bodyName(n) == name
}

// Prepare puts a long body into a file of its own, which is on disk when it returns,
// if the entry asks for it. It is called before Stage, since it takes its time.
func (j *Journal) Prepare(e Entry) (Entry, error) {
	if len(e.Body) <= BodyLimit {
		return e, nil
	}
	r := bodyRef{number: j.bodies.Add(1), length: uint64(len(e.Body)), sum: crc32.Checksum(e.Body, castagnoli)}
	if err := writeBody(j.dir, bodyName(r.number), e.Body, e.Sync); err != nil {
		return e, fmt.Errorf("write a body: %w", err)
	}
	e.Body, e.flags = r.bytes(), e.flags|flagOwnFile
	return e, nil
}

// Discard removes the file of an entry that was prepared and will not be staged.
func (j *Journal) Discard(e Entry) {
	if r, ok := parseBodyRef(e.Body); ok && e.flags&flagOwnFile != 0 {
		_ = os.Remove(filepath.Join(j.dir, bodyName(r.number)))
	}
}

func writeBody(dir, name string, body []byte, sync bool) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil && sync {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && sync {
		err = syncDir(dir)
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

// readBody reads and checks a body in a file of its own.
func readBody(dir string, r bodyRef) ([]byte, error) {
	path := filepath.Join(dir, bodyName(r.number))
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || uint64(info.Size()) != r.length:
		return nil, fmt.Errorf("%s is damaged: it has not the %d bytes that were written", path, r.length)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli) != r.sum {
		return nil, fmt.Errorf("%s is damaged: its checksum is wrong", path)
	}
	return b, nil
}
