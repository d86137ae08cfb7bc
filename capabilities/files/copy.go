package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/atomicfile"
	"github.com/agent-executor/executor/protocol"
)

type copyInput struct {
	From      string `json:"from" jsonschema:"the file or directory; a link is followed"`
	To        string `json:"to" jsonschema:"the new path itself, not the directory it goes into"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"a directory with all that is in it"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace the content of a file that is there"`
}

type copyOutput struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Copied  int    `json:"copied"`  // files, links and directories
	Skipped int    `json:"skipped"` // pipes, sockets, devices, other file systems
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256,omitempty"` // of one file
}

// Check refuses what no file can make right.
func (in copyInput) Check() error { return checkHome("to", in.To) }

func (f *Files) addCopy(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "copy",
		Description: "Copy a file, or with recursive a directory: there all at once or not at all. " +
			"Nothing is replaced without overwrite, and only a file.",
		Annotations: protocol.Annotations{Destructive: true},
	}, f.copy)
}

func (f *Files) copy(ctx context.Context, call *capabilities.Call, in copyInput) (out protocol.ToolOutput, err error) {
	err = again(func() error {
		out, err = f.copyOnce(ctx, call.Session(), in)
		return err
	})
	return out, err
}

func (f *Files) copyOnce(ctx context.Context, s *capabilities.Session, in copyInput) (out protocol.ToolOutput, err error) {
	from, err := s.Workspace().Resolve(in.From)
	if err != nil {
		return out, err
	}
	src, name, err := from.OpenParent()
	if err != nil {
		return out, notThere(err, s.Workspace(), from, in.From)
	}
	defer src.Close()
	info, err := src.Lstat(name)
	if err != nil {
		return out, notThere(capabilities.FileError(err, from.Display), s.Workspace(), from, in.From)
	}
	if info.IsDir() {
		return f.copyDir(ctx, s, from, in)
	}
	return f.copyFile(ctx, s, from, src, name, in)
}

func (f *Files) copyFile(ctx context.Context, s *capabilities.Session, from capabilities.Path, src *os.Root, name string, in copyInput) (out protocol.ToolOutput, err error) {
	if namesDir(in.To) {
		return out, errNamesDir("to", in.To)
	}
	t, _, err := f.aim(ctx, s, in.To, false)
	if err != nil {
		return out, err
	}
	defer t.close()
	t.unsafe = true // that it is replaced was said
	file, info, err := openIn(src, name, from)
	if err != nil {
		return out, err
	}
	defer file.Close()
	release, err := f.lock(ctx, t, info)
	if err != nil {
		return out, err
	}
	defer release()
	switch {
	case t.exists && os.SameFile(t.info, info):
		return out, protocol.Errorf(protocol.CodeInvalidParams, "%s and %s are the same file", from.Display, t.p.Display)
	case t.exists && !in.Overwrite:
		return out, protocol.Errorf(protocol.CodeConflict, "%s exists already: overwrite replaces it", t.p.Display)
	}
	content := &hashedFile{ctx: ctx, file: file}
	res, err := atomicfile.WriteFrom(t.dir, t.name, content, info.Size(),
		atomicfile.Options{New: !t.exists, Perm: info.Mode().Perm(), NoPerm: info.Mode().Perm() == 0})
	if err = t.writeError(res, err); !res.Changed {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if errors.Is(err, protocol.ErrConflict) && !in.Overwrite {
			err = protocol.Errorf(protocol.CodeConflict, "%s exists already: overwrite replaces it", t.p.Display)
		}
		return out, err
	}
	if err != nil {
		err = capabilities.FileError(err, t.p.Display)
	}
	now := content.sum()
	t.seen.forget(t.p)
	if before, ok := t.seen.content(from); ok && (before.late != nil || before.sum == now) {
		t.seen.set(t.p, before)
	}
	op := opModify
	if res.Created {
		op = opCreate
	}
	out = output(copyOutput{From: from.Display, To: t.p.Display, Copied: 1, Bytes: content.size, SHA256: now.String()},
		fmt.Sprintf("Copied %s to %s (%s)", from.Display, t.p.Display, plural(content.size, "byte")))
	out.Mutations = []protocol.Mutation{{Op: op, Path: t.p.Display, SHA256: now.String()}}
	return out, err
}

// hashedFile reads a file, also more than once, and knows the hash of what it read
// last.
type hashedFile struct {
	ctx  context.Context
	file *os.File
	hash hash.Hash
	size int64
}

func (h *hashedFile) Seek(offset int64, whence int) (int64, error) {
	h.hash, h.size = sha256.New(), 0
	return h.file.Seek(offset, whence)
}

func (h *hashedFile) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := h.file.Read(p)
	h.hash.Write(p[:n])
	h.size += int64(n)
	return n, err
}

func (h *hashedFile) sum() (content sum) {
	h.hash.Sum(content[:0])
	return content
}

// copyDir makes the copy under another name beside its place and gives it its name
// when it is complete.
func (f *Files) copyDir(ctx context.Context, s *capabilities.Session, from capabilities.Path, in copyInput) (out protocol.ToolOutput, err error) {
	w := s.Workspace()
	to, err := w.ResolveWriteLink(in.To)
	switch {
	case err != nil:
		return out, err
	case !in.Recursive:
		return out, protocol.Errorf(protocol.CodeInvalidParams, "%s is a directory: recursive copies it with all that is in it", from.Display)
	case inside(to, from):
		return out, protocol.Errorf(protocol.CodeInvalidParams, "%s is inside %s", to.Display, from.Display)
	}
	at, info, release, err := f.lockedPlace(ctx, to)
	if err != nil {
		return out, err
	}
	defer release()
	taken := protocol.Errorf(protocol.CodeConflict, "%s exists already: a directory takes nothing's place; delete it first or choose another name", to.Display)
	if info != nil {
		return out, taken
	}
	src, err := from.OpenDir()
	if err != nil {
		return out, err
	}
	defer src.Close()
	c := &copier{ctx: ctx, w: w}
	err = c.into(at, func(temp place) error {
		if err := c.fill(src, temp.dir, temp.name, from.Display); err != nil {
			return err
		}
		return rename(temp, at, false)
	})
	if errors.Is(err, fs.ErrExist) {
		err = taken
	}
	if err != nil {
		return out, at.fault(err)
	}
	seenBy(s).forget(to)
	text := fmt.Sprintf("Copied %s to %s (%s, %s)", from.Display, to.Display, plural(int64(c.copied), "thing"), plural(c.bytes, "byte"))
	text += c.skippedText()
	out = output(copyOutput{From: from.Display, To: to.Display, Copied: c.copied, Skipped: len(c.skipped), Bytes: c.bytes}, text)
	out.Mutations = []protocol.Mutation{{Op: opCreate, Path: to.Display}}
	return out, nil
}
