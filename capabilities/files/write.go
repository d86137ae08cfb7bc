package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/atomicfile"
	"github.com/agent-executor/executor/protocol"
)

// Values of writeInput.Mode.
const (
	modeOverwrite = "overwrite"
	modeCreate    = "create"
)

type writeInput struct {
	Path            string `json:"path" jsonschema:"the file, relative to the workspace or absolute"`
	Content         string `json:"content" jsonschema:"the whole new content"`
	Mode            string `json:"mode,omitempty" jsonschema:"overwrite (default), or create: the file must not exist"`
	CreateDirs      bool   `json:"create_dirs,omitempty" jsonschema:"make missing directories"`
	UnsafeOverwrite bool   `json:"unsafe_overwrite,omitempty" jsonschema:"replace the file even if it was not read or has changed since"`
}

// Check refuses what no file can make right.
func (in writeInput) Check() error {
	switch {
	case in.Mode != "" && in.Mode != modeOverwrite && in.Mode != modeCreate:
		return protocol.Errorf(protocol.CodeInvalidParams, "mode must be overwrite or create, not %q", in.Mode)
	case strings.HasSuffix(capabilities.UnquoteName(in.Path), "/"):
		return protocol.Errorf(protocol.CodeInvalidParams, "path names a directory: %s", in.Path)
	}
	return nil
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
	err = again(func() error {
		out, err = f.writeOnce(ctx, call.Session(), in)
		return err
	})
	return out, err
}

// writeOnce resolves the path, takes the file's lock and does the rest under it:
// look, check, write.
func (f *Files) writeOnce(ctx context.Context, s *capabilities.Session, in writeInput) (out protocol.ToolOutput, err error) {
	p, err := s.Workspace().ResolveWrite(in.Path)
	if err != nil {
		return out, err
	}
	release, err := f.locks.acquire(ctx, pathKey(p))
	if err != nil {
		return out, err
	}
	defer release()

	dir, name, err := p.OpenParent()
	var made []capabilities.Path
	if errors.Is(err, protocol.ErrNotFound) {
		if !in.CreateDirs {
			return out, protocol.Errorf(protocol.CodeNotFound, "the directory of %s does not exist: create_dirs makes it", p.Display)
		}
		dir, made, err = makeDir(s.Workspace(), filepath.Dir(p.Abs))
		name = filepath.Base(p.Abs)
	}
	if err != nil {
		unmakeDirs(made)
		return out, err
	}
	defer dir.Close()

	t := &target{p: p, dir: dir, name: name, seen: seenBy(s), unsafe: in.UnsafeOverwrite}
	release, err = f.look(ctx, t)
	if err != nil {
		unmakeDirs(made)
		return out, err
	}
	defer release()
	if in.Mode == modeCreate && t.exists {
		return out, protocol.Errorf(protocol.CodeConflict, "%s exists already: mode overwrite replaces it", p.Display)
	}

	content := []byte(in.Content)
	res, err := t.write(content)
	if !res.Changed {
		unmakeDirs(made)
		return out, err
	}
	now := sum(sha256.Sum256(content))
	t.seen.put(p, now)
	for _, d := range made {
		out.Mutations = append(out.Mutations, protocol.Mutation{Op: "mkdir", Path: d.Display})
	}
	op, verb := "modify", "Wrote"
	if res.Created {
		op, verb = "create", "Created"
	}
	text := fmt.Sprintf("%s %s (%s)", verb, p.Display, plural(int64(len(content)), "byte"))
	if res.InPlace {
		text += ", in place: it has other names or cannot be replaced"
	}
	out.Content = protocol.Text(text).Content
	out.Mutations = append(out.Mutations, protocol.Mutation{Op: op, Path: p.Display, SHA256: now.String()})
	out.Structured = writeOutput{Path: p.Display, BytesWritten: len(content), Created: res.Created, SHA256: now.String(), InPlace: res.InPlace}
	if err != nil {
		err = capabilities.FileError(err, p.Display)
	}
	return out, err
}

// target is a file that is about to be changed, under its lock. Every verb that
// changes contents goes through it.
type target struct {
	p      capabilities.Path
	dir    *os.Root // what p is in
	name   string
	seen   *seen
	unsafe bool // the caller does not care what is there

	exists bool
	info   fs.FileInfo // as it was when checked
	now    sum         // its content then
}

// look finds out what is there and takes the second lock of a file with several
// names. The release is for that.
func (f *Files) look(ctx context.Context, t *target) (release func(), err error) {
	release = func() {}
	info, err := t.dir.Lstat(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return release, nil
	}
	if err == nil {
		err = mustBeFile(info, t.p)
	}
	if err != nil {
		return nil, capabilities.FileError(err, t.p.Display)
	}
	t.exists = true
	if key := inodeKey(info); key != "" {
		if release, err = f.locks.acquire(ctx, key); err != nil {
			return nil, err
		}
	}
	if t.unsafe {
		return release, nil
	}
	if err := t.hash(ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// hash reads the content that is there.
func (t *target) hash(ctx context.Context) error {
	file, info, err := openIn(t.dir, t.name, t.p)
	if err != nil {
		return err
	}
	defer file.Close()
	now, _, err := newSource(ctx, file).finish()
	if err != nil {
		return readError(ctx, err, t.p)
	}
	t.info, t.now = info, now
	return nil
}

// write replaces the content if the stale-write rule allows it.
func (t *target) write(content []byte) (atomicfile.Result, error) {
	if t.exists && !t.unsafe {
		if err := t.seen.mayOverwrite(t.p, t.now); err != nil {
			return atomicfile.Result{}, err
		}
	}
	res, err := atomicfile.Write(t.dir, t.name, content, atomicfile.Options{New: !t.exists, Check: t.unchanged})
	switch {
	case err == nil || res.Changed:
		return res, err
	case errors.Is(err, fs.ErrExist):
		return res, errAppeared(t)
	case errors.Is(err, atomicfile.ErrNotRegular):
		return res, errReplaced(t.p)
	}
	var lost *atomicfile.LostError
	if errors.As(err, &lost) {
		return res, protocol.Errorf(protocol.CodeInternalError, "%s: %v", t.p.Display, lost)
	}
	return res, capabilities.FileError(err, t.p.Display)
}

// errAppeared: there was no file when we looked and there is one now.
func errAppeared(t *target) error {
	if t.unsafe {
		return errReplaced(t.p)
	}
	return stale("%s was created by somebody else at the same moment: read it first, or say unsafe_overwrite", t.p.Display)
}

// unchanged looks once more when the new content is ready, which may have taken a
// while: programs outside know nothing of our locks.
func (t *target) unchanged() error {
	if !t.exists || t.unsafe {
		return nil
	}
	info, err := t.dir.Lstat(t.name)
	if err == nil && os.SameFile(info, t.info) && info.Size() == t.info.Size() && info.ModTime().Equal(t.info.ModTime()) {
		return nil
	}
	before := t.now
	err = t.hash(context.Background())
	switch {
	case errors.Is(err, protocol.ErrNotFound):
		return errReplaced(t.p)
	case err != nil:
		return err
	}
	if t.now != before {
		return t.seen.mayOverwrite(t.p, t.now)
	}
	return nil
}
