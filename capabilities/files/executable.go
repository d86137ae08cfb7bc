package files

import (
	"context"
	"io/fs"
	"runtime"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

type setExecutableInput struct {
	Path       string `json:"path" jsonschema:"the file"`
	Executable *bool  `json:"executable,omitempty" jsonschema:"false takes the right away; true by default"`
}

type setExecutableOutput struct {
	Path       string `json:"path"`
	Executable bool   `json:"executable"`
	Mode       string `json:"mode"`
	Changed    bool   `json:"changed"`
}

func (f *Files) addSetExecutable(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name:        "set_executable",
		Description: "Make a file a program for all who may read it, or take that away.",
		Annotations: protocol.Annotations{Idempotent: true},
	}, f.setExecutable)
}

func (f *Files) setExecutable(ctx context.Context, call *capabilities.Call, in setExecutableInput) (out protocol.ToolOutput, err error) {
	err = again(func() error {
		out, err = f.setExecutableOnce(ctx, call.Session(), in)
		return err
	})
	return out, err
}

func (f *Files) setExecutableOnce(ctx context.Context, s *capabilities.Session, in setExecutableInput) (out protocol.ToolOutput, err error) {
	t, _, err := f.aim(ctx, s, in.Path, false)
	if err != nil {
		if p, unknown := s.Workspace().Resolve(in.Path); unknown == nil {
			err = notThere(err, s.Workspace(), p, in.Path)
		}
		return out, err
	}
	defer t.close()
	release, err := f.lock(ctx, t)
	if err != nil {
		return out, err
	}
	defer release()
	switch {
	case !t.exists:
		return out, absent(s.Workspace(), t.p, in.Path)
	case runtime.GOOS == "windows":
		return out, protocol.Errorf(protocol.CodeInvalidParams, "%s: on this system the name says what is a program, not a permission", t.p.Display)
	}
	want := in.Executable == nil || *in.Executable
	mode := t.info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	now := mode &^ 0o111
	if want {
		now = mode | mode&0o444>>2 | 0o100
	}
	if now != mode {
		if err := t.chmod(now); err != nil {
			return out, err
		}
		out.Mutations = []protocol.Mutation{{Op: opChmod, Path: t.p.Display}}
	}
	text := t.p.Display + " is executable"
	if !want {
		text = t.p.Display + " is not executable"
	}
	result := output(setExecutableOutput{t.p.Display, want, modeText(now), now != mode}, text+" ("+modeText(now)+")")
	result.Mutations = out.Mutations
	return result, nil
}

// chmod changes the file that look has seen. By handle, so that a link put in its
// place is not followed; a file that cannot be read has only its name.
func (t *target) chmod(mode fs.FileMode) error {
	file, _, err := openIn(t.dir, t.name, t.p)
	if err != nil {
		return t.chmodName(mode, err)
	}
	defer file.Close()
	if err := file.Chmod(mode); err != nil {
		return capabilities.FileError(err, t.p.Display)
	}
	return nil
}
