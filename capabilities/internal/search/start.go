package search

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// attempts is how often a path is resolved anew when something on the way was replaced
// between the look and the use.
const attempts = 5

// start is where a search begins: a directory, or one file in it.
type start struct {
	dir   dir    // owned; close ends it
	file  string // the name in dir when the path is a file, else ""
	shown string // the path for people, not quoted: "" for the workspace's directory, else without a slash at its end
	root  string // the root's path
	path  string // below the root, "a/b/" or ""
	rules *rules // of the directories from the root down to dir, without dir's own
	in    *capabilities.Workspace
}

func (s *start) close() { s.dir.close() }

// open resolves path and opens it step by step. The names on the way may be hidden or
// ignored: what is named is meant. The error is a *protocol.Error.
func open(w *capabilities.Workspace, path string, noIgnore bool) (s *start, err error) {
	for range attempts {
		var p capabilities.Path
		if p, err = w.Resolve(path); err != nil {
			return nil, err
		}
		s, err = descend(w, p, noIgnore)
		if err == nil {
			return s, nil
		}
		if !gone(err) {
			return nil, capabilities.FileError(err, p.Display)
		}
		err = capabilities.FileError(err, p.Display)
	}
	return nil, err
}

func descend(w *capabilities.Workspace, p capabilities.Path, noIgnore bool) (*start, error) {
	d, err := openTop(p.Root)
	if err != nil {
		return nil, err
	}
	s := &start{dir: d, shown: filepath.ToSlash(capabilities.UnquoteName(p.Display)), root: p.Root.Name(), in: w}
	if s.shown == "." {
		s.shown = ""
	}
	if p.Rel == "." {
		return s, nil
	}
	steps := strings.Split(filepath.ToSlash(p.Rel), "/")
	for i, step := range steps {
		k, _, err := s.dir.look(step)
		if err == nil && k != kindDir {
			if i == len(steps)-1 {
				err = mustBeFile(k, p)
				s.file = step
			} else {
				err = errNotFile
			}
		}
		if err != nil {
			s.close()
			return nil, err
		}
		if s.file != "" {
			return s, nil
		}
		if !noIgnore {
			s.rules = s.rules.extend(s, s.dir, marksOf(s.dir), s.path)
		}
		child, err := s.dir.open(step)
		s.close()
		if err != nil {
			return nil, err
		}
		s.dir = child
		s.path += step + "/"
	}
	return s, nil
}

// marksOf asks for the names that matter to rules where the directory is not listed.
func marksOf(d dir) marks {
	has := func(name string) bool {
		_, _, err := d.look(name)
		return err == nil
	}
	return marks{gitignore: has(".gitignore"), ignore: has(".ignore"), git: has(".git")}
}

func mustBeFile(k kind, p capabilities.Path) error {
	switch k {
	case kindFile:
		return nil
	case kindLink:
		return errNotFile // it was none a moment ago
	}
	return protocol.Errorf(protocol.CodeInvalidParams, "%s is not a regular file but a named pipe, a socket or a device", p.Display)
}

// reason is an error about a file in a few words, without its name.
func reason(err error) string {
	e := capabilities.FileError(err, "")
	var known *protocol.Error
	if errors.As(error(e), &known) {
		return strings.TrimPrefix(strings.TrimPrefix(known.Message, ":"), " ")
	}
	return err.Error()
}
