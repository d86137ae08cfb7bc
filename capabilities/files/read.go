package files

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	SHA256     string `json:"sha256"`
	Truncated  bool   `json:"truncated"` // there is more behind, or lines are cut
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
	file, p, err := openFile(call.Session().Workspace(), in.Path)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	defer file.Close()
	release, err := f.waitForWriter(ctx, file)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	defer release()
	// Some files of the kernel's make a reader wait.
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	src := newSource(ctx, file)
	head, _ := src.Peek(headSize) // an error comes again below
	kind := sniff(head)
	var found lines
	var picture []byte
	switch {
	case kind.image:
		picture, err = io.ReadAll(io.LimitReader(src, f.opts.MaxImageBytes+1))
	case kind.encoding != "":
		found, err = scan(src.text(kind.encoding), f.window(in))
	}
	content, size, end := src.finish()
	if err = errors.Join(err, end); err != nil {
		return protocol.ToolOutput{}, readError(ctx, err, p)
	}
	seenBy(call.Session()).put(p, content)

	out := readOutput{Path: p.Display, SizeBytes: size, SHA256: content.String(), MIMEType: kind.mime, Encoding: kind.encoding}
	// A few stray NULs are told and shown; many mean that these are no lines.
	if kind.encoding != "" && found.nuls > size/100 {
		kind = format{mime: "application/octet-stream"}
		out.Encoding, out.MIMEType = "", kind.mime
	}
	switch {
	case kind.image:
		return f.image(out, picture), nil
	case kind.encoding == "":
		out.Binary = true
		return output(out, fmt.Sprintf("[%s is binary, not shown: %s, %s]", p.Display, kind.mime, plural(size, "byte"))), nil
	}
	return f.text(out, found, in), nil
}

// waitForWriter keeps a reader off a file with several names: it is written in
// place, and half of it would be seen.
func (f *Files) waitForWriter(ctx context.Context, file *os.File) (release func(), err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if key := inodeKey(info); key != "" {
		return f.locks.acquire(ctx, key)
	}
	return func() {}, nil
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

func (f *Files) text(out readOutput, found lines, in readInput) protocol.ToolOutput {
	out.TotalLines = found.total
	first := max(in.Offset, 1)
	last := first + int64(len(found.shown)) - 1
	if len(found.shown) == 0 {
		if found.total == 0 && first == 1 {
			return output(out, fmt.Sprintf("[%s is empty]", out.Path))
		}
		o := output(out, fmt.Sprintf("[offset %s is past the end: %s has %s, %s]",
			count(first), out.Path, plural(found.total, "line"), plural(out.SizeBytes, "byte")))
		o.IsError = true
		return o
	}
	out.FirstLine, out.LastLine = first, last

	var text, content strings.Builder
	var about notes
	for i, l := range found.shown {
		shown, invalid, nuls := clean(l.text)
		about.invalid += invalid
		about.nuls += nuls
		content.WriteString(shown)
		if strings.HasSuffix(shown, "\r") && l.ended && !l.cut() {
			about.crlf++
			shown = shown[:len(shown)-1]
		}
		if l.cut() {
			about.cut++
			if l.chars > about.longest {
				about.longest, about.longestLine = l.chars, first+int64(i)
			}
			shown += " …"
		}
		if l.ended {
			content.WriteByte('\n')
		}
		fmt.Fprintf(&text, numberFormat, first+int64(i), shown)
	}
	out.Content = content.String()
	out.Truncated = last < found.total || about.cut > 0
	if about.invalid > 0 && out.Encoding == utf8Text {
		out.Encoding = notUTF8Text
	}

	fmt.Fprintf(&text, "[lines %s-%s of %s, %s]\n", count(first), count(last), count(found.total), plural(out.SizeBytes, "byte"))
	if last < found.total {
		fmt.Fprintf(&text, "[%s more; continue with offset %d]\n", plural(found.total-last, "line"), last+1)
	}
	about.unending = found.unending && last == found.total
	f.about(&text, about, out, in)
	return output(out, strings.TrimSuffix(text.String(), "\n"))
}

func readError(ctx context.Context, err error, p capabilities.Path) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return ctx.Err()
	}
	return capabilities.FileError(err, p.Display)
}
