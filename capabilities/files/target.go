package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/atomicfile"
	"github.com/agent-executor/executor/protocol"
)

// Values of protocol.Mutation.Op.
const (
	opCreate = "create"
	opModify = "modify"
	opDelete = "delete"
	opMove   = "move"
	opMkdir  = "mkdir"
	opChmod  = "chmod"
)

// target is a file that is about to be changed. Every verb that changes contents
// goes through it: aim, lock, hash or read, write, close.
type target struct {
	files  *Files
	p      capabilities.Path
	dir    *os.Root // what p is in
	name   string
	seen   *seen
	unsafe bool         // the caller does not care what is there
	rule   func() error // the stale-write rule, where it is applied while the new content is on its way to the disk

	exists   bool
	info     fs.FileInfo // as it was when looked at
	now      sum         // its content then
	written  sum         // the content that write has made
	refused  error       // what rule said
	encoding string      // of what current made UTF-8 of, and write makes it again; "" for bytes as they are
}

// aim finds the file that path means, following links, and opens its directory.
// With create it makes missing directories, which are returned. The caller closes
// the target.
func (f *Files) aim(ctx context.Context, s *capabilities.Session, path string, create bool) (t *target, made []capabilities.Path, err error) {
	p, err := s.Workspace().ResolveWrite(path)
	if err != nil {
		return nil, nil, err
	}
	dir, name, err := p.OpenParent()
	if errors.Is(err, protocol.ErrNotFound) && create {
		dir, made, err = makeDir(ctx, s.Workspace(), filepath.Dir(p.Abs))
		name = filepath.Base(p.Abs)
	} else if errors.Is(err, protocol.ErrNotFound) {
		err = protocol.Errorf(protocol.CodeNotFound, "the directory of %s does not exist: mkdir makes it, or write with create_dirs", p.Display)
	}
	if err != nil {
		unmakeDirs(made)
		return nil, nil, err
	}
	return &target{files: f, p: p, dir: dir, name: name, seen: seenBy(s)}, made, nil
}

func (t *target) close() { t.dir.Close() }

// lock waits for the file's lock and finds out what is there; a file with several
// names has a second one, and so has each of those that are read for it. release gives
// all back.
func (f *Files) lock(ctx context.Context, t *target, also ...fs.FileInfo) (release func(), err error) {
	first, err := f.locks.acquire(ctx, fileKey(t.dir, t.name, t.p))
	if err != nil {
		return nil, err
	}
	if err := t.look(); err != nil {
		first()
		return nil, err
	}
	var inodes []string
	for _, info := range append(also, t.info) {
		if info != nil && inodeKey(info) != "" {
			inodes = append(inodes, inodeKey(info))
		}
	}
	second, err := f.locks.acquireAll(ctx, inodes...)
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// look finds out what is there.
func (t *target) look() error {
	info, err := t.dir.Lstat(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		t.exists, t.info = false, nil
		return nil
	}
	if err == nil && info.IsDir() {
		return protocol.Errorf(protocol.CodeInvalidParams, "%s is a directory: name the file itself, one in it perhaps; list_files shows what is in it", t.p.Display)
	}
	if err == nil {
		err = mustBeFile(info, t.p)
	}
	if err != nil {
		return capabilities.FileError(err, t.p.Display)
	}
	t.exists, t.info = true, info
	return nil
}

// hash learns the content that is there, as far as anybody asks for it.
func (t *target) hash(ctx context.Context) error {
	if !t.exists || t.unsafe {
		return nil
	}
	file, info, err := openIn(t.dir, t.name, t.p)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := t.files.buffer()
	defer t.files.giveBack(buffer)
	src := newSource(ctx, file, buffer, true)
	if err := src.drain(); err != nil {
		return readError(ctx, err, t.p)
	}
	t.info, t.now = info, src.sum()
	return nil
}

// mayBeOverwritten refuses what need not be hashed to be refused.
func (t *target) mayBeOverwritten() error {
	if !t.exists || t.unsafe {
		return nil
	}
	if _, ok := t.seen.content(t.p); ok {
		return nil
	}
	return t.seen.mayOverwrite(t.p, sum{})
}

// read returns the whole content, which has at most limit bytes, and learns its
// hash.
func (t *target) read(ctx context.Context, limit int64) ([]byte, error) {
	file, info, err := openIn(t.dir, t.name, t.p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := readAll(ctx, file, info.Size(), limit)
	if errors.Is(err, errTooLarge) {
		return nil, protocol.Errorf(protocol.CodePayloadTooLarge, "%s has more than %s bytes: change it with a command, sed for example",
			t.p.Display, count(limit))
	}
	if err != nil {
		return nil, readError(ctx, err, t.p)
	}
	t.info, t.now = info, sumOf(content)
	return content, nil
}

var errTooLarge = errors.New("too large")

// readAll reads r, which has about size bytes, into memory unless it has more than
// limit.
func readAll(ctx context.Context, r io.Reader, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, errTooLarge
	}
	var buf bytes.Buffer
	buf.Grow(int(size) + bytes.MinRead)
	n, err := buf.ReadFrom(io.LimitReader(reader{ctx, r}, limit+1))
	if n > limit {
		return nil, errTooLarge
	}
	return buf.Bytes(), err
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// raw is a content as it is in the file.
func (t *target) raw(content []byte) []byte {
	if t.encoding == "" {
		return content
	}
	return toUTF16(content, t.encoding)
}

// write makes content the file's content. The stale-write rule has been applied to
// what hash or read found, or is now; a change after that is seen here.
func (t *target) write(content []byte) (atomicfile.Result, error) {
	content = t.raw(content)
	res, err := atomicfile.Write(t.dir, t.name, content, atomicfile.Options{New: !t.exists, Check: t.unchanged, Meanwhile: func() {
		t.written = sumOf(content)
		if t.rule != nil {
			t.refused = t.rule()
		}
	}})
	return res, t.writeError(res, err)
}

func (t *target) writeError(res atomicfile.Result, err error) error {
	switch {
	case err == nil || res.Changed, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrExist):
		return errAppeared(t)
	case errors.Is(err, atomicfile.ErrNotRegular):
		return errReplaced(t.p)
	}
	var lost *atomicfile.LostError
	if errors.As(err, &lost) {
		return protocol.Errorf(protocol.CodeInternalError, "%s: %v", t.p.Display, lost)
	}
	return capabilities.FileError(err, t.p.Display)
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
	if t.refused != nil || !t.exists || t.unsafe {
		return t.refused
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
		return stale("%s was changed by somebody else at the same moment: read it again, or say unsafe_overwrite", t.p.Display)
	}
	return nil
}
