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
	err = again(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := w.ResolveWrite(in.Path)
		if err != nil {
			return err
		}
		dir, made, err := makeDir(ctx, w, p.Abs)
		for _, d := range made {
			out.Mutations = append(out.Mutations, protocol.Mutation{Op: opMkdir, Path: d.Display})
		}
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
