package spawn

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// instanceFile is the file in the state directory by which an executor knows its children from those of
// other executors, also after a restart.
const instanceFile = "children"

// instance is who an executor is to its children: the same in every life on one state directory.
type instance struct {
	id     string // 32 hexadecimal digits, random
	cgroup string // where the children of the last life were; empty for none
}

func newInstance() instance {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return instance{id: hex.EncodeToString(id[:])}
}

// number is the instance in labels.
func (i instance) number() uint32 {
	raw, _ := hex.DecodeString(i.id[:8])
	return binary.BigEndian.Uint32(raw)
}

// readInstance reads the file of a state directory; fresh says that there is none that counts. One that
// was copied does not: the executor it belongs to may be running, and its children are not ours. The
// file says of itself which one it is, so that a copy shows.
func readInstance(dir string) (i instance, fresh bool, err error) {
	f, err := os.Open(filepath.Join(dir, instanceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return newInstance(), true, nil
	}
	if err != nil {
		return newInstance(), true, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 8<<10))
	if err != nil {
		return newInstance(), true, err
	}
	id, rest, ok := strings.Cut(string(text), "\n")
	self, rest, ok2 := strings.Cut(rest, "\n")
	cgroup, _, ok3 := strings.Cut(rest, "\n")
	raw, err := hex.DecodeString(id)
	if !ok || !ok2 || !ok3 || err != nil || len(raw) != 16 || self != identity(f) {
		return newInstance(), true, nil
	}
	return instance{id: id, cgroup: cgroup}, false, nil
}

// write keeps the instance in the state directory: a new file, which takes the old one's place when it
// is whole.
func (i instance) write(dir string) (err error) {
	name := filepath.Join(dir, instanceFile)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\n%s\n%s\n", i.id, identity(f), i.cgroup)
		if err == nil {
			err = f.Sync()
		}
		if closed := f.Close(); err == nil {
			err = closed
		}
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("note whose the children are: %w; after a kill they will not be found again", err)
	}
	return nil
}

func formatIdentity(device, inode uint64) string { return fmt.Sprintf("%x:%x", device, inode) }
