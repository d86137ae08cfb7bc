package atomicfile

import (
	"io/fs"
	"os"
	"strings"
)

// tempPrefix begins the name of every temporary file. The dot hides it; its
// length is bounded however long the name of the file is.
const tempPrefix = ".executor-tmp-"

// IsTemp recognises the name of a temporary file of this package. One that is
// still there without a Write under way was left by a crash.
func IsTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// temp is a temporary file in dir.
type temp struct {
	dir  *os.Root
	file *os.File
	name string // "" when there is nothing to remove any more
}

func newTemp(dir *os.Root, perm fs.FileMode) (*temp, error) {
	name := TempName()
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|nonblock, perm)
	if err != nil {
		return nil, err
	}
	return &temp{dir: dir, file: f, name: name}, nil
}

// discard closes and removes the file, as far as that has not been done.
func (t *temp) discard() {
	t.file.Close()
	if t.name != "" {
		t.dir.Remove(t.name)
	}
}
