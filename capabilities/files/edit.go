package files

import (
	"context"
	"fmt"
	"slices"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// maxEdit is the largest file, in bytes, that is edited: it is held in memory.
const maxEdit = 64 << 20

// diffContext is how many unchanged lines are shown round a change.
const diffContext = 3

type editInput struct {
	Path            string `json:"path" jsonschema:"the file, relative to the workspace or absolute"`
	OldString       string `json:"old_string" jsonschema:"the text to replace, exactly as it is in the file, without the line numbers of read"`
	NewString       string `json:"new_string" jsonschema:"what to put in its place, taken literally"`
	ReplaceAll      bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence; otherwise there must be exactly one"`
	UnsafeOverwrite bool   `json:"unsafe_overwrite,omitempty" jsonschema:"edit even if the file has changed since this session read it"`
}

// Check refuses what no file can make right.
func (in editInput) Check() error { return checkStrings("", in.OldString, in.NewString) }

func checkStrings(prefix, old, text string) error {
	switch {
	case old == "":
		return protocol.Errorf(protocol.CodeInvalidParams, "%sold_string is empty: say which text to replace; write makes a new file", prefix)
	case old == text:
		return protocol.Errorf(protocol.CodeInvalidParams, "%sold_string and new_string are the same", prefix)
	}
	return nil
}

type editOutput struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	Diff         string `json:"diff"`
	SHA256       string `json:"sha256"`
	Truncated    bool   `json:"truncated,omitempty"` // of the diff
	InPlace      bool   `json:"in_place,omitempty"`  // the file kept its inode
}

func (f *Files) addEdit(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "edit",
		Description: "Replace a piece of text in a file; it must match exactly and be there once, or say replace_all. " +
			"All other bytes stay as they are, line ends too. Refused when this session has read the file and it has changed since.",
		Annotations: protocol.Annotations{Destructive: true},
	}, f.edit)
}

func (f *Files) edit(ctx context.Context, call *capabilities.Call, in editInput) (out protocol.ToolOutput, err error) {
	err = again(func() error {
		out, err = f.editOnce(ctx, call, in)
		return err
	})
	return out, err
}

// editOnce does all under the file's lock: read, check, replace, write.
func (f *Files) editOnce(ctx context.Context, call *capabilities.Call, in editInput) (out protocol.ToolOutput, err error) {
	t, _, err := f.aim(ctx, call.Session(), in.Path, false)
	if err != nil {
		return out, err
	}
	defer t.close()
	release, err := f.lock(ctx, t)
	if err != nil {
		return out, err
	}
	defer release()
	content, err := t.current(ctx, in.UnsafeOverwrite)
	if err != nil {
		return out, err
	}
	found := matches(content, in.OldString)
	switch {
	case len(found) == 0:
		return out, noMatch(t.p.Display, content, in.OldString)
	case len(found) > 1 && !in.ReplaceAll:
		return out, ambiguous(t.p.Display, content, found)
	}
	text, changes, err := replace(content, found, in.OldString, in.NewString)
	if err != nil {
		return out, err
	}
	res, err := t.write(text)
	if !res.Changed {
		return out, err
	}
	if err != nil {
		err = capabilities.FileError(err, t.p.Display)
	}
	now := t.written
	t.seen.put(t.p, now)
	diff, _, _ := clean(unified(t.p.Display, t.p.Display, content, text, changes, diffContext))
	head := fmt.Sprintf("Edited %s (%s)", t.p.Display, plural(int64(len(found)), "replacement"))
	if res.InPlace {
		head += inPlace
	}
	shown, truncated := f.fit(call, diff, len(head)+1)
	out = output(editOutput{Path: t.p.Display, Replacements: len(found), Diff: shown, SHA256: now.String(), Truncated: truncated, InPlace: res.InPlace},
		head+"\n"+shown)
	out.Mutations = []protocol.Mutation{{Op: opModify, Path: t.p.Display, SHA256: now.String()}}
	return out, err
}

// current reads the content that is to be edited, UTF-16 as UTF-8, and applies the
// stale-write rule. Wide text that would not come back as it was is refused: its bytes
// are no text, and a match among them would tear characters apart.
func (t *target) current(ctx context.Context, unsafe bool) ([]byte, error) {
	if !t.exists {
		if near := nearPlace(t.p); near != "" {
			return nil, protocol.Errorf(protocol.CodeNotFound, "%s does not exist; there is %s, and write makes a new file", t.p.Display, near)
		}
		return nil, protocol.Errorf(protocol.CodeNotFound, "%s does not exist: write makes a new file", t.p.Display)
	}
	content, err := t.read(ctx, maxEdit)
	if err != nil {
		return nil, err
	}
	if !unsafe {
		if err = t.seen.await(ctx, t.p); err == nil {
			err = t.seen.mayEdit(t.p, t.now)
		}
	}
	if err != nil {
		return nil, err
	}
	if wide := wideEncoding(content); wide != "" {
		text, ok := fromUTF16(content, wide)
		if !ok {
			return nil, errDamaged(t.p.Display, wide)
		}
		t.encoding, content = wide, text
	}
	return slices.Clip(content), nil
}

// errDamaged says that a file cannot be edited as the text it says it is.
func errDamaged(display, encoding string) *protocol.Error {
	what := "with characters that are damaged, and cannot be edited as text"
	if encoding == utf32LE {
		what = "and cannot be edited as text"
	}
	return protocol.Errorf(protocol.CodeNotFound, "old_string was not looked for in %s: the file is %s %s; write makes it UTF-8, or use a command",
		display, encoding, what).WithReason(protocol.ReasonNoMatch)
}
