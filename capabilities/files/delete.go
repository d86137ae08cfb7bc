package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

type deleteInput struct {
	Path      string `json:"path" jsonschema:"the file, link or directory; a link itself, never what it leads to"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"a directory with all that is in it"`
}

type deleteOutput struct {
	Path    string `json:"path"`
	Type    string `json:"type"`
	Deleted int    `json:"deleted"` // files, links and directories
}

func (f *Files) addDelete(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "delete",
		Description: "Delete a file, a link or an empty directory; with recursive a directory and all in it. " +
			"Links are not followed, other file systems not entered.",
		Annotations: protocol.Annotations{Destructive: true},
	}, f.delete)
}

func (f *Files) delete(ctx context.Context, call *capabilities.Call, in deleteInput) (out protocol.ToolOutput, err error) {
	err = again(func() error {
		out, err = f.deleteOnce(ctx, call.Session(), in)
		return err
	})
	return out, err
}

func (f *Files) deleteOnce(ctx context.Context, s *capabilities.Session, in deleteInput) (out protocol.ToolOutput, err error) {
	w := s.Workspace()
	p, err := w.ResolveWriteLink(in.Path)
	if err == nil {
		err = notRoot(w, p, "deleted")
	}
	if err != nil {
		return out, err
	}
	at, info, release, err := f.lockedPlace(ctx, p)
	if err != nil {
		return out, notThere(err, w, p, in.Path)
	}
	defer release()
	if info == nil {
		return out, absent(w, p, in.Path)
	}
	r := &remover{ctx: ctx, w: w}
	if info.IsDir() && in.Recursive {
		err = r.tree(at.dir, at.name, p.Display)
	} else if err = at.dir.Remove(at.name); err == nil {
		r.deleted++
	}
	if err != nil {
		if isNotEmpty(err) && !in.Recursive {
			return out, protocol.Errorf(protocol.CodeConflict, "%s is a directory that is not empty: recursive deletes all in it", p.Display)
		}
		if r.deleted > 0 { // a part is gone
			out.Mutations = []protocol.Mutation{{Op: opModify, Path: p.Display}}
			out.Content = protocol.Text(fmt.Sprintf("%s deleted in %s before this:", plural(int64(r.deleted), "thing"), p.Display)).Content
			out.Structured = deleteOutput{p.Display, kindOf(info.Mode()), r.deleted}
		}
		return out, at.fault(err)
	}
	seenBy(s).forget(p)
	_ = syncRoot(at.dir) // gone it is, only not for sure after a power cut
	text := fmt.Sprintf("Deleted %s (%s)", p.Display, kindOf(info.Mode()))
	if r.deleted > 1 {
		text += fmt.Sprintf(", %s in all", plural(int64(r.deleted), "thing"))
	}
	out = output(deleteOutput{p.Display, kindOf(info.Mode()), r.deleted}, text)
	out.Mutations = []protocol.Mutation{{Op: opDelete, Path: p.Display}}
	return out, nil
}

// remover deletes a tree from the bottom up, by handles.
type remover struct {
	ctx     context.Context
	w       *capabilities.Workspace
	deleted int
}

// tree deletes the directory name in dir, which people know as display.
func (r *remover) tree(dir *os.Root, name, display string) error {
	child, err := enter(r.w, dir, name)
	if err != nil {
		return r.about(err, display)
	}
	err = r.contents(child, display)
	child.Close()
	if err != nil {
		return err
	}
	if err := dir.Remove(name); err != nil {
		return r.about(err, display)
	}
	r.deleted++
	return nil
}

// contents empties a directory. What is put into it meanwhile goes too, as long as
// there is an end to it.
func (r *remover) contents(dir *os.Root, display string) error {
	for range 1000 {
		var names []fs.DirEntry
		err := entries(r.ctx, dir, func(e fs.DirEntry) error {
			if names = append(names, e); len(names) == 10_000 {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return r.about(err, display)
		}
		if len(names) == 0 {
			return nil
		}
		for _, e := range names {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			if err := r.one(dir, e, display); err != nil {
				return err
			}
		}
	}
	return protocol.Errorf(protocol.CodeConflict, "%s is filled faster than it can be emptied", display)
}

var errEnough = errors.New("enough")

func (r *remover) one(dir *os.Root, e fs.DirEntry, display string) error {
	display = filepath.ToSlash(filepath.Join(display, capabilities.QuoteName(e.Name())))
	isDir := e.IsDir()
	if e.Type() == fs.ModeIrregular { // some file systems do not say
		if info, err := dir.Lstat(e.Name()); err == nil {
			isDir = info.IsDir()
		}
	}
	if isDir {
		err := r.tree(dir, e.Name(), display)
		if errors.Is(err, protocol.ErrNotFound) {
			return nil
		}
		return err
	}
	err := dir.Remove(e.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		r.deleted++
	}
	return r.about(err, display)
}

// about names the place that an error is about.
func (r *remover) about(err error, display string) error {
	var known *protocol.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errMountPoint), errors.Is(err, errRootInside):
		errors.As(err, &known)
		named := *known
		named.Message = display + " stays, and what holds it: " + known.Message
		return &named
	}
	return fault(err, capabilities.Path{Display: display})
}
