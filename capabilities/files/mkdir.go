package files

import (
	"context"
	"errors"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

type mkdirInput struct {
	Path string `json:"path" jsonschema:"the directory; those above it are made too"`
}

type mkdirOutput struct {
	Path    string `json:"path"`
	Created bool   `json:"created"`
}

// Check refuses what no file can make right.
func (in mkdirInput) Check() error { return checkHome("path", in.Path) }

func (f *Files) addMkdir(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name:        "mkdir",
		Description: "Make a directory and those above it. One that is there already is fine.",
		Annotations: protocol.Annotations{Idempotent: true},
	}, f.mkdir)
}

func (f *Files) mkdir(ctx context.Context, call *capabilities.Call, in mkdirInput) (out protocol.ToolOutput, err error) {
	w := call.Session().Workspace()
	var all []capabilities.Path // also those of attempts that came to nothing
	err = again(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := w.ResolveWrite(in.Path)
		if err != nil {
			return err
		}
		dir, made, err := makeDir(ctx, w, p.Abs)
		all = append(all, made...)
		out.Mutations = mkdirs(all)
		if errors.Is(err, protocol.ErrNotFound) {
			err = protocol.Errorf(protocol.CodeConflict, "%s cannot be made: it or a part of its path is no directory", p.Display)
			if info, look := p.Root.Lstat(p.Rel); look == nil {
				err = protocol.Errorf(protocol.CodeConflict, "%s exists already, and is a %s", p.Display, kindOf(info.Mode()))
			}
		}
		if err != nil {
			return err
		}
		dir.Close()
		text := "Made " + p.Display
		if len(out.Mutations) == 0 {
			text = "[" + p.Display + " is there already]"
		}
		out.Content, out.Structured = protocol.Text(text).Content, mkdirOutput{p.Display, len(out.Mutations) > 0}
		return nil
	})
	return out, err
}

// maxMadeBytes is how many bytes of paths tell of the directories that a call made. Each
// has the names of those above it in its path: of a thousand there would be a megabyte, and
// no brain takes that.
const maxMadeBytes = 64 << 10

// mkdirs tells of the directories that were made, outermost first: of all of them, or when
// their paths are too long together of as many as there is room for and of the innermost,
// whose path names those between.
func mkdirs(made []capabilities.Path) (all []protocol.Mutation) {
	size := 0
	for i, d := range made {
		if size += len(d.Display); size > maxMadeBytes && i > 0 {
			d = made[len(made)-1]
		}
		all = append(all, protocol.Mutation{Op: opMkdir, Path: d.Display})
		if size > maxMadeBytes && i > 0 {
			break
		}
	}
	return all
}
