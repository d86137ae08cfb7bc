package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// The manifest says which segments there are, so that one that is gone is missed. It
// has a fixed size and is written in place, which takes no room on a full disk: two
// slots with the same content, one after the other, of which a crash leaves one. A slot
// is u32 magic, u32 CRC32C of what follows, u32 length, and JSON of that length.
const (
	manifestName  = "manifest"
	manifestMagic = 0x4d584521
	slotSize      = 16 << 10
	slotHeader    = 12
	listedAtMost  = 1500 // segments, the newest; they fit in a slot
)

// manifest is used concurrently. A segment is in it before anybody is told that a
// record of it is on the disk, and out of it before its file is removed.
type manifest struct {
	path string

	mu sync.Mutex
	f  *os.File // nil: there was no room for it yet
	is listing
}

type listing struct {
	ID         string   `json:"id"` // of the journal, from its beginning
	Generation uint64   `json:"generation"`
	Segments   []uint64 `json:"segments"`
	// Incomplete: calls may have been accepted of which there is no record.
	Incomplete bool `json:"incomplete,omitempty"`
	// Lagging names the start of the machine in which records are relied upon that may not
	// be on the disk yet; "" = there are none.
	Lagging string `json:"lagging,omitempty"`
}

// list makes the segments those that are listed.
func (l *listing) list(segments []*segment) {
	l.Segments = l.Segments[:0]
	for _, s := range segments {
		l.Segments = append(l.Segments, s.id)
	}
}

// openManifest reads the manifest, or makes one with a new id. problem is what is wrong
// with the one that is there; "" when nothing is.
func openManifest(dir string) (m *manifest, problem string, err error) {
	m = &manifest{path: filepath.Join(dir, manifestName)}
	f, err := os.OpenFile(m.path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		m.is.ID = uuid.NewString()
		return m, "it is missing", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("open the journal: %w", err)
	}
	m.f = f
	b, err := io.ReadAll(io.LimitReader(f, 2*slotSize))
	if err != nil {
		_ = f.Close()
		return nil, "", fmt.Errorf("read the journal: %w", err)
	}
	for off := 0; off < len(b); off += slotSize {
		if l, ok := readSlot(b[off:]); ok && l.Generation >= m.is.Generation {
			m.is = l
		}
	}
	if m.is.ID == "" {
		m.is.ID = uuid.NewString()
		problem = "neither of its two parts can be read"
	}
	return m, problem, nil
}

func readSlot(b []byte) (l listing, ok bool) {
	if len(b) < slotHeader || binary.LittleEndian.Uint32(b) != manifestMagic {
		return l, false
	}
	n := int64(binary.LittleEndian.Uint32(b[8:]))
	if n > int64(min(len(b), slotSize)-slotHeader) ||
		crc32.Checksum(b[8:slotHeader+n], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return l, false
	}
	return l, json.Unmarshal(b[slotHeader:slotHeader+n], &l) == nil && l.ID != ""
}

// change changes what the manifest says, on the disk when it returns. After an error it
// may say the one or the other.
func (m *manifest) change(how func(*listing)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	how(&m.is)
	m.is.Generation++
	l := m.is
	l.Segments = l.Segments[max(0, len(l.Segments)-listedAtMost):]
	content, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write the journal's manifest: %w", err)
	}
	slot := binary.LittleEndian.AppendUint32(nil, manifestMagic)
	slot = append(slot, 0, 0, 0, 0)
	slot = binary.LittleEndian.AppendUint32(slot, uint32(len(content)))
	slot = append(slot, content...)
	binary.LittleEndian.PutUint32(slot[4:], crc32.Checksum(slot[8:], castagnoli))
	if m.f == nil {
		if m.f, err = makeManifest(m.path); err != nil {
			return fmt.Errorf("make the journal's manifest: %w", err)
		}
	}
	// The one that the last change has written first is on the disk.
	first := int64(m.is.Generation%2) * slotSize
	if _, err = m.f.WriteAt(slot, first); err == nil {
		err = syncData(m.f)
	}
	if err != nil {
		m.is.Generation-- // so that the next one spares the other slot too
	} else {
		_, err = m.f.WriteAt(slot, slotSize-first) // on the disk with the next change
	}
	if err != nil {
		return fmt.Errorf("write the journal's manifest: %w", err)
	}
	return nil
}

func makeManifest(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(bytes.Repeat([]byte{pattern}, 2*slotSize)); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return f, nil
}

// made reports whether there is one on the disk.
func (m *manifest) made() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.f != nil
}

func (m *manifest) add(id uint64) error {
	return m.change(func(l *listing) {
		if !slices.Contains(l.Segments, id) {
			l.Segments = append(l.Segments, id)
		}
	})
}

func (m *manifest) remove(id uint64) error {
	return m.change(func(l *listing) {
		l.Segments = slices.DeleteFunc(l.Segments, func(other uint64) bool { return other == id })
	})
}

func (m *manifest) now() listing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.is
}

func (m *manifest) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.f == nil {
		return nil
	}
	err := syncData(m.f)
	if closed := m.f.Close(); err == nil {
		err = closed
	}
	return err
}

// ID is the journal's, from its beginning: another one is another journal.
func (j *Journal) ID() string { return j.manifest.now().ID }

// SetIncomplete says whether calls may have been accepted of which there is no record.
// Open reports it as a loss, until it is said that there are none.
func (j *Journal) SetIncomplete(yes bool) error {
	if j.manifest.now().Incomplete == yes {
		return nil
	}
	return j.manifest.change(func(l *listing) { l.Incomplete = yes })
}
