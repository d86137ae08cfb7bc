package git

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"

	"github.com/agent-executor/executor/protocol"
)

const (
	// maxPackNames is bytes of names of packs in an index over several.
	maxPackNames = 16 << 20
	// maxTables is bytes of the list of tables of branches.
	maxTables = 1 << 20
)

// packNames refuses an index over several packs that names a pack elsewhere: git opens what is named there, beside
// the index, and does not look at the name. What is no such index is git's to say.
func (w *walk) packNames(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	// A header of 12 bytes, then for each chunk its name and where it begins, with one more as the end.
	head := make([]byte, 12+12*257)
	n, _ := file.ReadAt(head, 0)
	if n < 12 || string(head[:4]) != "MIDX" {
		return nil
	}
	chunks, packs := int(head[6]), int(binary.BigEndian.Uint32(head[8:]))
	for table := head[12:n]; chunks > 0 && len(table) >= 12; chunks, table = chunks-1, table[12:] {
		if string(table[:4]) != "PNAM" {
			continue
		}
		// git reads as many names as there are packs, wherever the chunk ends.
		rest, err := io.ReadAll(io.NewSectionReader(file, int64(binary.BigEndian.Uint64(table[4:])&(1<<62-1)), maxPackNames))
		if err != nil {
			return nil
		}
		for range packs {
			name, after, ok := bytes.Cut(rest, []byte{0})
			if bytes.ContainsAny(name, `/\`) {
				return w.r.outside("a pack that is named in "+path, string(name))
			}
			if !ok {
				break
			}
			rest = after
		}
		if len(rest) == 0 && packs > 0 {
			return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: there are too many packs in one index")
		}
	}
	return nil
}

// tables refuses a list of the tables of branches that names one elsewhere.
func (w *walk) tables(path string) error {
	text, err := readSmall(path, maxTables)
	if err != nil {
		return nil
	}
	for name := range strings.Lines(text) {
		if strings.ContainsAny(name, `/\`) {
			return w.r.outside("a table of its branches", strings.TrimSuffix(name, "\n"))
		}
	}
	return nil
}
