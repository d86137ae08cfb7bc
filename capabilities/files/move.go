package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

type moveInput struct {
	From      string `json:"from" jsonschema:"the file, link or directory; a link itself, never what it leads to"`
	To        string `json:"to" jsonschema:"the new path itself, not the directory it goes into"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace a file that is there"`
}

type moveOutput struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Type     string `json:"type"`
	Replaced bool   `json:"replaced"` // there was something under the new path
	Copied   bool   `json:"copied"`   // to another file system
}

// Check refuses what no file can make right.
func (in moveInput) Check() error { return checkHome("to", in.To) }

func (f *Files) addMove(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "move",
		Description: "Rename or move a file, a link or a directory, also to another file system. " +
			"Nothing is replaced without overwrite, and never a directory.",
		Annotations: protocol.Annotations{Destructive: true},
	}, f.move)
}

func (f *Files) move(ctx context.Context, call *capabilities.Call, in moveInput) (out protocol.ToolOutput, err error) {
	err = again(func() error {
		out, err = f.moveOnce(ctx, call.Session(), in)
		return err
	})
	return out, err
}

func (f *Files) moveOnce(ctx context.Context, s *capabilities.Session, in moveInput) (out protocol.ToolOutput, err error) {
	w := s.Workspace()
	fromPath, err := w.ResolveWriteLink(in.From)
	if err != nil {
		return out, err
	}
	toPath, err := w.ResolveWriteLink(in.To)
	if err != nil {
		return out, err
	}
	if err := notRoot(w, fromPath, "moved"); err != nil {
		return out, err
	}
	if err := notRoot(w, toPath, "replaced"); err != nil {
		return out, err
	}
	from, err := openPlace(fromPath)
	if err != nil {
		return out, notThere(err, w, fromPath, in.From)
	}
	defer from.close()
	to, err := openPlace(toPath)
	if err != nil {
		return out, err
	}
	defer to.close()
	release, err := f.locks.acquireAll(ctx, from.key(), to.key())
	if err != nil {
		return out, err
	}
	defer release()
	m := &mover{ctx: ctx, w: w, from: from, to: to, overwrite: in.Overwrite, what: in.From, into: in.To}
	replaced, err := m.check()
	if err == nil {
		err = m.run()
	}
	if err != nil && !m.done {
		return out, err
	}
	seenBy(s).move(fromPath, toPath)
	text := fmt.Sprintf("Moved %s to %s (%s)", fromPath.Display, toPath.Display, kindOf(m.info.Mode()))
	if m.copied {
		text += ", to another file system"
	}
	out = output(moveOutput{From: fromPath.Display, To: toPath.Display, Type: kindOf(m.info.Mode()), Replaced: replaced, Copied: m.copied}, text)
	out.Mutations = []protocol.Mutation{{Op: opMove, Path: toPath.Display, From: fromPath.Display}}
	return out, err
}

// mover is one move.
type mover struct {
	ctx       context.Context
	w         *capabilities.Workspace
	from, to  place
	overwrite bool
	what      string // from as the call has it
	into      string // and to

	info   fs.FileInfo // of what is moved
	sameAs bool        // the two names are two of one file already
	copied bool
	done   bool // it is under the new name
}

// check looks at both ends.
func (m *mover) check() (replaces bool, err error) {
	from, to := m.from.p.Display, m.to.p.Display
	m.info, err = m.from.lstat()
	if err == nil && m.info == nil {
		err = absent(m.w, m.from.p, m.what)
	}
	if err != nil {
		return false, err
	}
	there, err := m.to.lstat()
	switch {
	case err != nil:
		return false, err
	case m.from.p.Abs == m.to.p.Abs:
		return false, protocol.Errorf(protocol.CodeInvalidParams, "from and to are the same: %s", from)
	case m.info.IsDir() && inside(m.to.p, m.from.p):
		return false, protocol.Errorf(protocol.CodeInvalidParams, "%s is inside %s", to, from)
	case !m.info.IsDir() && namesDir(m.into) && (there == nil || !there.IsDir()):
		return false, errNamesDir("to", m.into)
	case there == nil:
		return false, nil
	case os.SameFile(m.info, there) && strings.EqualFold(m.from.name, m.to.name) && m.from.key() == m.to.key() && inodeKey(m.info) == "":
		m.overwrite = true // another spelling on a disk that ignores case
		return false, nil
	case there.IsDir():
		return false, protocol.Errorf(protocol.CodeConflict, "%s is a directory: name the new path itself, below it perhaps, or delete it first", to)
	case m.info.IsDir():
		return false, protocol.Errorf(protocol.CodeConflict, "%s exists already: a directory takes nothing's place; delete it first or choose another name", to)
	case !m.overwrite:
		return false, errTaken(to)
	}
	m.sameAs = os.SameFile(m.info, there)
	return true, nil
}

func errTaken(display string) error {
	return protocol.Errorf(protocol.CodeConflict, "%s exists already: overwrite replaces it", display)
}

func (m *mover) run() error {
	if m.sameAs { // rename would leave both
		err := m.from.fault(m.from.dir.Remove(m.from.name))
		m.done = err == nil
		return err
	}
	err := rename(m.from, m.to, m.overwrite)
	switch {
	case err == nil:
		m.done = true
		return nil
	case isOtherDevice(err):
		return m.copy()
	case errors.Is(err, fs.ErrExist):
		return errTaken(m.to.p.Display)
	case errors.Is(err, fs.ErrNotExist):
		return errReplaced(m.from.p)
	}
	return m.from.fault(err)
}

// copy moves to another file system: the copy is whole and on the disk before it gets
// its name, and has its name before what it was made of is removed.
func (m *mover) copy() error {
	c := &copier{ctx: m.ctx, w: m.w, all: true}
	err := c.into(m.to, func(temp place) error {
		var err error
		switch mode := m.info.Mode(); {
		case mode.IsDir():
			var src *os.Root
			if src, err = enter(m.w, m.from.dir, m.from.name); err == nil {
				err = c.fill(src, temp.dir, temp.name, m.from.p.Display)
				src.Close()
			}
		case mode.IsRegular():
			if err = c.file(m.from.dir, m.from.name, temp.dir, temp.name, m.from.p.Display); err == nil {
				err = syncTree(temp.dir)
			}
		case mode&fs.ModeSymlink != 0:
			err = c.link(m.from.dir, m.from.name, temp.dir, temp.name)
		default:
			err = c.skip(m.from.p.Display, "a "+kindOf(mode))
		}
		if err != nil {
			return err
		}
		return rename(temp, m.to, m.overwrite)
	})
	switch {
	case errors.Is(err, fs.ErrExist):
		return errTaken(m.to.p.Display)
	case err != nil:
		return m.to.fault(err)
	}
	m.done, m.copied = true, true
	r := &remover{ctx: context.WithoutCancel(m.ctx), w: m.w}
	if m.info.IsDir() {
		err = r.tree(m.from.dir, m.from.name, m.from.p.Display)
	} else {
		err = r.about(m.from.dir.Remove(m.from.name), m.from.p.Display)
	}
	if err != nil {
		return protocol.Errorf(protocol.CodeConflict, "it was copied to %s, but what it was made of could not be removed: %v", m.to.p.Display, err)
	}
	return nil
}
