package files

import (
	"context"
	"fmt"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// Values of writeInput.Mode.
const (
	modeOverwrite = "overwrite"
	modeCreate    = "create"
)

type writeInput struct {
	Path            string                `json:"path" jsonschema:"the file, relative to the workspace or absolute"`
	Content         capabilities.LongText `json:"content" jsonschema:"the whole new content"`
	Mode            string                `json:"mode,omitempty" jsonschema:"overwrite (default), or create: the file must not exist"`
	CreateDirs      bool                  `json:"create_dirs,omitempty" jsonschema:"make missing directories"`
	UnsafeOverwrite bool                  `json:"unsafe_overwrite,omitempty" jsonschema:"replace the file even if it was not read or has changed since"`
}

// Check refuses what no file can make right.
func (in writeInput) Check() error {
	switch {
	case in.Mode != "" && in.Mode != modeOverwrite && in.Mode != modeCreate:
		return protocol.Errorf(protocol.CodeInvalidParams, "mode must be overwrite or create, not %s", named(in.Mode))
	case namesDir(in.Path):
		return errNamesDir("path", in.Path)
	}
	return checkHome("path", in.Path)
}

type writeOutput struct {
	Path         string `json:"path"`
	BytesWritten int    `json:"bytes_written"`
	Created      bool   `json:"created"`
	SHA256       string `json:"sha256"`
	InPlace      bool   `json:"in_place,omitempty"` // the file kept its inode
}

func (f *Files) addWrite(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "write",
		Description: "Write a whole file. One that exists must have been read in this session and be unchanged since. " +
			"Permissions, owner, links stay; the old content is there until the new one is complete.",
		Annotations: protocol.Annotations{Destructive: true, Idempotent: true},
	}, f.write)
}

func (f *Files) write(ctx context.Context, call *capabilities.Call, in writeInput) (out protocol.ToolOutput, err error) {
	content, free := in.Content.Bytes()
	defer free()
	err = again(func() error {
		out, err = f.writeOnce(ctx, call.Session(), in, content)
		return err
	})
	return out, err
}

// writeOnce takes the file's lock and does the rest under it: look, check, write.
func (f *Files) writeOnce(ctx context.Context, s *capabilities.Session, in writeInput, content []byte) (out protocol.ToolOutput, err error) {
	t, made, err := f.aim(ctx, s, in.Path, in.CreateDirs)
	if err != nil {
		return out, err
	}
	defer t.close()
	t.unsafe = in.UnsafeOverwrite
	release, err := f.lock(ctx, t)
	if err != nil {
		unmakeDirs(made)
		return out, err
	}
	defer release()
	if in.Mode == modeCreate && t.exists {
		return out, protocol.Errorf(protocol.CodeConflict, "%s exists already: mode overwrite replaces it", t.p.Display)
	}
	if err := t.mayBeOverwritten(); err != nil {
		return out, err
	}
	t.rule = func() error {
		if !t.exists || t.unsafe {
			return nil
		}
		if err := t.hash(ctx); err != nil {
			return err
		}
		if err := t.seen.await(ctx, t.p); err != nil {
			return err
		}
		return t.seen.mayOverwrite(t.p, t.now)
	}
	res, err := t.write(content)
	if !res.Changed {
		unmakeDirs(made)
		return out, err
	}
	now := t.written
	t.seen.put(t.p, now)
	out.Mutations = mkdirs(made)
	op, verb := opModify, "Wrote"
	if res.Created {
		op, verb = opCreate, "Created"
	}
	text := fmt.Sprintf("%s %s (%s)", verb, t.p.Display, plural(int64(len(content)), "byte"))
	if res.InPlace {
		text += inPlace
	}
	out.Content = protocol.Text(text).Content
	out.Mutations = append(out.Mutations, protocol.Mutation{Op: op, Path: t.p.Display, SHA256: now.String()})
	out.Structured = writeOutput{Path: t.p.Display, BytesWritten: len(content), Created: res.Created, SHA256: now.String(), InPlace: res.InPlace}
	if err != nil {
		err = capabilities.FileError(err, t.p.Display)
	}
	return out, err
}

// inPlace is said of a file that kept its inode.
const inPlace = ", in place: it has other names or cannot be replaced"
