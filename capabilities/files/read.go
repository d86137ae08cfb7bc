package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// noteBytes is kept free of the result's text for the lines about the file.
const noteBytes = 2 << 10

type readInput struct {
	Path   string `json:"path" jsonschema:"the file, relative to the workspace or absolute"`
	Offset int64  `json:"offset,omitempty" jsonschema:"first line to show, counted from 1"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"how many lines to show"`
	Full   bool   `json:"full,omitempty" jsonschema:"no limit on lines and on their length; a long text is kept in a file"`
}

// Check refuses what no file can make right.
func (in readInput) Check() error {
	if in.Offset < 0 || in.Limit < 0 {
		return protocol.Errorf(protocol.CodeInvalidParams, "offset and limit: must not be negative")
	}
	return nil
}

// readOutput is the structured result. Content is what is shown, without numbers
// and notes, line ends as they are.
type readOutput struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	FirstLine  int64  `json:"first_line,omitempty"`
	LastLine   int64  `json:"last_line,omitempty"`
	TotalLines int64  `json:"total_lines"`
	SizeBytes  int64  `json:"size_bytes"`
	SHA256     string `json:"sha256,omitempty"` // absent above 64 MiB until it is known: at the first read
	Truncated  bool   `json:"truncated"`        // there is more behind, or lines are cut
	Encoding   string `json:"encoding,omitempty"`
	MIMEType   string `json:"mime_type,omitempty"`
	Binary     bool   `json:"binary,omitempty"`
}

func (f *Files) addRead(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "read",
		Description: fmt.Sprintf("Read a text file as numbered lines, %s by default; offset and limit select others. "+
			"Images are shown. Reading a file allows write to replace it as long as it does not change.", count(f.opts.MaxLines)),
		Annotations: protocol.Annotations{ReadOnly: true, Idempotent: true},
	}, f.read)
}

func (f *Files) read(ctx context.Context, call *capabilities.Call, in readInput) (protocol.ToolOutput, error) {
	file, info, p, err := openFile(call.Session().Workspace(), in.Path)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	defer file.Close()
	info, release, err := f.waitForWriter(ctx, file, info)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	defer release()
	// Some files of the kernel's make a reader wait.
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	l := &look{p: p, info: info, window: f.window(in), page: &page{}}
	if info.Size() >= minIndexed {
		l.index = f.indexes.get(stampSum(info, p))
	}
	buffer := f.buffer()
	if l.index != nil {
		err = l.again(ctx, file, buffer)
	} else {
		_, err = l.first(ctx, file, buffer, f.opts.MaxImageBytes)
	}
	f.giveBack(buffer)
	if err != nil {
		return protocol.ToolOutput{}, readError(ctx, err, p)
	}
	f.remember(l, file)
	out := readOutput{Path: p.Display, SizeBytes: l.size, MIMEType: l.format.mime, Encoding: l.format.encoding}
	if content, ok := f.contentOf(call.Session(), l); ok {
		out.SHA256 = content.String()
	}
	switch {
	case l.format.image:
		return f.image(out, l.picture), nil
	case l.format.encoding == "":
		out.Binary = true
		text := fmt.Sprintf("[%s is binary, not shown: %s, %s]", p.Display, l.format.mime, plural(l.size, "byte"))
		if l.format.nuls {
			text += "\n[a text with NUL characters in it, it seems: the command `tr -d '\\000' <FILE` shows the rest]"
		}
		return output(out, text), nil
	}
	return f.text(out, l.found, l.page, in), nil
}

// buffer is one to read a file with; giveBack keeps it for the next.
func (f *Files) buffer() *bufio.Reader { return f.buffers.Get().(*bufio.Reader) }

func (f *Files) giveBack(buffer *bufio.Reader) {
	buffer.Reset(nil)
	f.buffers.Put(buffer)
}

// look is one look at a file that is open, and what it found.
type look struct {
	p      capabilities.Path
	info   fs.FileInfo // when it was opened
	window window
	index  *index // nil when there was none

	format  format
	page    *page // of a text
	found   lines
	picture []byte
	size    int64
	content sum
	hashed  bool // content is there
	began   time.Time
}

// first reads the whole file, but for a large one that is not text. line is how it
// begins.
func (l *look) first(ctx context.Context, file io.Reader, buffer *bufio.Reader, maxImage int64) (line []byte, err error) {
	l.began = time.Now()
	l.hashed = l.info.Size() <= maxHash
	src := newSource(ctx, file, buffer, l.hashed)
	head, _ := src.Peek(headSize) // an error comes again below
	l.format = sniff(head)
	// What changes right after a change may look the same from outside.
	if l.format.encoding != "" && !l.hashed && !settled(l.info, l.began) {
		l.hashed = true
		src.hash()
	}
	line = bytes.Clone(head[:min(len(head), 128)])
	switch l.format.encoding {
	case utf8Text, utf8BOM:
		l.page.grow(l.window, l.info.Size(), 0)
		s := newScanner(l.window, 0, 0, l.page.add)
		s.showAll = l.page.addAll
		if l.format.encoding == utf8BOM {
			_, _ = src.Discard(len(utf8Mark))
			s.blocks, s.offset = []int64{0}, int64(len(utf8Mark))
		}
		l.found, err = scanSource(src, s, false)
	case utf16LE, utf16BE:
		order, _ := utf16Order(l.format.encoding)
		wide := newWideReader(src, order)
		l.found, err = scan(wide.decoded(order), l.window, l.page.add)
		l.found.damaged = wide.damaged()
		l.found.blocks = nil // of the decoded text
	default:
		if l.format.image {
			l.picture, err = io.ReadAll(io.LimitReader(src, maxImage+1))
		}
		if err == nil && l.hashed {
			err = src.drain()
		}
	}
	if err != nil {
		return nil, err
	}
	l.size = src.raw.size
	switch {
	case l.hashed:
		l.content = src.sum()
	case l.format.encoding == "":
		l.size = l.info.Size()
	}
	// A few stray NULs are told and shown; many mean that these are no lines.
	if l.format.encoding != "" && l.found.nuls > l.size/100 {
		l.format = format{mime: "application/octet-stream", nuls: true}
	}
	return line, nil
}

// again reads only what is shown.
func (l *look) again(ctx context.Context, file io.ReaderAt, buffer *bufio.Reader) (err error) {
	x := l.index
	l.format, l.size, l.content, l.hashed = x.format, x.size, x.content, x.hashed
	if x.format.encoding != "" && l.window.first <= x.total {
		offset, newlines := x.find(l.window.first)
		if offset == 0 && x.format.encoding == utf8BOM {
			offset = int64(len(utf8Mark))
		}
		var done bool
		if done, err = l.slice(ctx, file, buffer, offset, newlines); err != nil {
			return err
		}
		if done {
			l.found.total, l.found.unending = x.total, x.unending
			return nil
		}
		*l.page = page{}
		src := newSource(ctx, io.NewSectionReader(file, offset, math.MaxInt64-offset), buffer, false)
		l.page.grow(l.window, x.size, x.total)
		s := newScanner(l.window, offset, newlines, l.page.add)
		s.showAll = l.page.addAll
		l.found, err = scanSource(src, s, true)
	}
	l.found.total, l.found.unending = x.total, x.unending
	return err
}

// remember keeps an index of what was read as a whole, if nothing can have changed
// meanwhile without a trace.
func (f *Files) remember(l *look, file *os.File) {
	text := l.format.encoding != ""
	if l.index != nil || l.info.Size() < minIndexed || text && l.found.blocks == nil || l.format.image || !settled(l.info, l.began) {
		return
	}
	stamp := stampSum(l.info, l.p)
	if now, err := file.Stat(); err != nil || stampSum(now, l.p) != stamp {
		return
	}
	f.indexes.put(&index{stamp: stamp, format: l.format, content: l.content, hashed: l.hashed, size: l.size,
		total: l.found.total, unending: l.found.unending, blocks: l.found.blocks})
}

// contentOf is the hash of what was looked at, which the session has seen now. For a
// large file it may have to be computed first: then ok is false.
func (f *Files) contentOf(s *capabilities.Session, l *look) (content sum, ok bool) {
	stamp := stampSum(l.info, l.p)
	if content, ok = l.content, l.hashed; !ok {
		content, ok = f.hashes.get(stamp)
	}
	if ok {
		seenBy(s).put(l.p, content)
	} else {
		seenBy(s).putLate(l.p, f.hashLater(s, l.p, stamp))
	}
	return content, ok
}

// waitForWriter keeps a reader off a file with several names: it is written in
// place, and half of it would be seen.
func (f *Files) waitForWriter(ctx context.Context, file *os.File, before fs.FileInfo) (info fs.FileInfo, release func(), err error) {
	key := inodeKey(before)
	if key == "" {
		return before, func() {}, nil
	}
	if release, err = f.locks.acquire(ctx, key); err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err != nil {
		release()
		return nil, nil, err
	}
	return info, release, nil
}

// window is what the input asks for within the limits.
func (f *Files) window(in readInput) window {
	w := window{first: max(in.Offset, 1), limit: in.Limit, chars: f.opts.MaxLineChars, bytes: f.opts.MaxTextBytes - noteBytes}
	if in.Full {
		w.chars, w.bytes = 0, f.opts.MaxFullBytes
	}
	if w.limit == 0 {
		w.limit = int64(f.opts.MaxLines)
		if in.Full {
			w.limit = math.MaxInt64 / 2
		}
	}
	w.first = min(w.first, math.MaxInt64/2)
	w.limit = min(w.limit, math.MaxInt64/2)
	return w
}

func (f *Files) text(out readOutput, found lines, p *page, in readInput) protocol.ToolOutput {
	out.TotalLines = found.total
	first := max(in.Offset, 1)
	last := first + found.count - 1
	if found.count == 0 {
		if found.total == 0 && first == 1 {
			return output(out, fmt.Sprintf("[%s is empty]", out.Path))
		}
		o := output(out, fmt.Sprintf("[offset %s is past the end: %s has %s, %s]",
			count(first), out.Path, plural(found.total, "line"), plural(out.SizeBytes, "byte")))
		o.IsError = true
		return o
	}
	out.FirstLine, out.LastLine, out.Content = first, last, p.content.String()
	out.Truncated = last < found.total || p.notes.cut > 0
	if p.notes.invalid > 0 && out.Encoding == utf8Text {
		out.Encoding = notUTF8Text
	}
	fmt.Fprintf(&p.text, "[lines %s-%s of %s, %s]\n", count(first), count(last), count(found.total), plural(out.SizeBytes, "byte"))
	if last < found.total {
		fmt.Fprintf(&p.text, "[%s more; continue with offset %d]\n", plural(found.total-last, "line"), last+1)
	}
	p.notes.unending = found.unending && last == found.total
	p.notes.damaged = found.damaged
	f.about(&p.text, p.notes, out, in)
	return output(out, strings.TrimSuffix(p.text.String(), "\n"))
}

func readError(ctx context.Context, err error, p capabilities.Path) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return ctx.Err()
	}
	return capabilities.FileError(err, p.Display)
}
