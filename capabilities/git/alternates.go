package git

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxAlternates is how deep object directories may lead to others. git stops at 5.
	maxAlternates = 5
	// maxAlternatesFile is bytes of a list of them.
	maxAlternatesFile = 64 << 10
)

// alternates refuses objects from outside. objects is a directory of them, without links.
func (w *walk) alternates(objects string, depth int) error {
	if depth > maxAlternates {
		return nil
	}
	text, err := readSmall(filepath.Join(objects, "info", "alternates"), maxAlternatesFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errTooLong):
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: objects/info/alternates is no file of at most %d bytes", maxAlternatesFile)
	case err != nil:
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: objects/info/alternates cannot be read")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		readings := []string{line}
		if line[0] == '"' {
			unquoted, err := strconv.Unquote(line)
			if err != nil {
				return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: a line of objects/info/alternates cannot be understood")
			}
			readings = append(readings, unquoted) // git knows fewer escapes, and takes the line as it is then
		}
		for _, reading := range readings {
			full := beside(objects, reading)
			// Older versions of git take ".." away before they look for links.
			for _, other := range []string{full, filepath.Clean(full)} {
				if err := w.alternate(other, depth); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *walk) alternate(objects string, depth int) error {
	p, err := w.r.workspace.Resolve(capabilities.QuoteName(objects))
	if err != nil {
		return w.r.outside("the objects it takes from another", strings.TrimSuffix(objects, "/"))
	}
	at := place{p.Abs, objectStore, false}
	if w.seen[at] {
		return nil
	}
	if err := w.directory(at); err != nil {
		return err
	}
	return w.alternates(p.Abs, depth+1)
}
