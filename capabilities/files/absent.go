package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// maxNear is among how many names of a directory one is looked for that was meant, and
// minNearName how long a name must be for another one to be near it.
const (
	maxNear     = 2000
	minNearName = 5
)

// withLine is a path as compilers write places: with a line behind it, and a column.
var withLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+?)(:\d+)+:?$`) })

// absent words that there is nothing at p, which a call named so, and says what may have
// been meant.
func absent(w *capabilities.Workspace, p capabilities.Path, asked string) *protocol.Error {
	name := capabilities.UnquoteName(asked)
	there := func(other string) bool {
		at, err := w.Resolve(capabilities.QuoteName(other))
		if err != nil || other == name {
			return false
		}
		_, err = at.Root.Lstat(at.Rel)
		return err == nil
	}
	say := func(hint string, args ...any) *protocol.Error {
		return protocol.Errorf(protocol.CodeNotFound, "%s does not exist"+hint, append([]any{p.Display}, args...)...)
	}
	if link, err := w.ResolveLink(asked); err == nil && link.Abs != p.Abs {
		if target, err := link.Root.Readlink(link.Rel); err == nil {
			return protocol.Errorf(protocol.CodeNotFound, "%s is a link to %s, which does not exist", link.Display, capabilities.QuoteName(target))
		}
	}
	line := withLine().FindStringSubmatch(name)
	bare := strings.Trim(name, " \t\r\n\"'`")
	switch {
	case homeless(name):
		return say(": ~ is not expanded")
	case line != nil && there(line[1]):
		return say("; %s does: give the line as offset", capabilities.QuoteName(line[1]))
	case bare != "" && there(bare):
		return say("; %s does", capabilities.QuoteName(bare))
	case strings.ContainsAny(name, "*?["):
		return say("; a path is no pattern: glob finds files by one")
	}
	if near := nearPlace(p); near != "" {
		return say("; there is %s", near)
	}
	return say("")
}

// nearPlace names what is there and nearly p: in another case, or with a typing error in
// the first step that is not there.
func nearPlace(p capabilities.Path) string {
	steps := strings.Split(filepath.ToSlash(p.Rel), "/")
	dir, err := p.Root.OpenRoot(".")
	if err != nil {
		return ""
	}
	defer func() { dir.Close() }()
	for len(steps) > 1 {
		next, err := capabilities.OpenChild(dir, steps[0])
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return ""
		}
		dir.Close()
		dir, steps = next, steps[1:]
	}
	missing := steps[0]
	shown := strings.Split(filepath.ToSlash(capabilities.UnquoteName(p.Display)), "/")
	display := strings.Join(shown[:max(len(shown)-len(steps), 0)], "/")
	var names []string
	same := ""
	_ = entries(context.Background(), dir, func(e fs.DirEntry) error {
		if strings.EqualFold(e.Name(), missing) {
			same = e.Name()
		}
		if names = append(names, e.Name()); len(names) == maxNear {
			return errEnough
		}
		return nil
	})
	stem := strings.TrimSuffix(missing, path.Ext(missing))
	if same == "" && len(stem) >= minNearName {
		same = capabilities.Nearest(missing, names)
	}
	if same == "" {
		return ""
	}
	if len(shown) > len(steps) {
		same = display + "/" + same
	}
	return capabilities.QuoteName(same)
}

// homeless is a path that a shell would begin in somebody's home.
func homeless(name string) bool { return name == "~" || strings.HasPrefix(name, "~/") }

// checkHome refuses such a path for something new, of which nobody would know later that
// it is a directory with the name ~. member is the input's.
func checkHome(member, path string) error {
	if !homeless(capabilities.UnquoteName(path)) {
		return nil
	}
	return protocol.Errorf(protocol.CodeInvalidParams, "%s: %s: ~ is not expanded; give the absolute path, or ./~ for a thing of that name", member, named(path))
}

// notThere is err, or says more when it is that there is nothing at p.
func notThere(err error, w *capabilities.Workspace, p capabilities.Path, asked string) error {
	if !errors.Is(err, protocol.ErrNotFound) || p.Root == nil {
		return err
	}
	if _, look := p.Root.Lstat(p.Rel); !errors.Is(look, os.ErrNotExist) {
		return err
	}
	return absent(w, p, asked)
}
