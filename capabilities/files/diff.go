package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"golang.org/x/text/encoding/unicode"
)

const (
	// maxDiff is the largest file, in bytes, that is compared.
	maxDiff = 32 << 20
	// maxDiffContext bounds the unchanged lines round a change.
	maxDiffContext = 1000
)

type diffInput struct {
	PathA    string  `json:"path_a" jsonschema:"the old file"`
	PathB    string  `json:"path_b,omitempty" jsonschema:"the new file"`
	ContentB *string `json:"content_b,omitempty" jsonschema:"the new content, instead of path_b"`
	Context  *int    `json:"context,omitempty" jsonschema:"unchanged lines round a change; 3 by default"`
}

// Check refuses what no file can make right.
func (in diffInput) Check() error {
	switch {
	case (in.PathB == "") == (in.ContentB == nil):
		return protocol.Errorf(protocol.CodeInvalidParams, "give either path_b or content_b")
	case in.Context != nil && (*in.Context < 0 || *in.Context > maxDiffContext):
		return protocol.Errorf(protocol.CodeInvalidParams, "context: 0 to %s", count(maxDiffContext))
	}
	return nil
}

type diffOutput struct {
	Diff      string `json:"diff"`
	Identical bool   `json:"identical"` // byte for byte
	Binary    bool   `json:"binary,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	EncodingA string `json:"encoding_a,omitempty"` // when the two differ: the texts are compared then
	EncodingB string `json:"encoding_b,omitempty"`
}

func (f *Files) addDiff(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name:        "diff",
		Description: "Compare two files, or a file with a text, as a unified diff. UTF-16 and byte order marks are compared as the text they stand for, and told.",
		Annotations: protocol.Annotations{ReadOnly: true, Idempotent: true},
	}, f.diff)
}

func (f *Files) diff(ctx context.Context, call *capabilities.Call, in diffInput) (out protocol.ToolOutput, err error) {
	nameA, a, err := f.whole(ctx, call.Session(), in.PathA)
	if err != nil {
		return out, err
	}
	nameB, b := nameA+" (content_b)", []byte(nil)
	if in.ContentB != nil {
		b = []byte(*in.ContentB)
	} else if nameB, b, err = f.whole(ctx, call.Session(), in.PathB); err != nil {
		return out, err
	}
	if len(b) > maxDiff {
		return out, protocol.Errorf(protocol.CodePayloadTooLarge, "content_b has more than %s bytes", count(maxDiff))
	}
	var result diffOutput
	if bytes.Equal(a, b) {
		result.Identical = true
		return output(result, fmt.Sprintf("[%s and %s are identical]", nameA, nameB)), nil
	}
	textA, encodingA, okA := comparedText(a)
	textB, encodingB, okB := comparedText(b)
	if !okA || !okB {
		result.Binary = true
		return output(result, fmt.Sprintf("[%s and %s differ; binary, not shown: %s and %s; a command as `cmp -l` or `diff -a` shows where]", nameA, nameB,
			plural(int64(len(a)), "byte"), plural(int64(len(b)), "byte"))), nil
	}
	note := ""
	switch {
	case encodingA != encodingB:
		a, b = withoutMark(textA, encodingA), withoutMark(textB, encodingB)
		result.EncodingA, result.EncodingB = encodingA, encodingB
		note = fmt.Sprintf("\n[%s is %s, %s is %s; their texts are compared]", nameA, encodingA, nameB, encodingB)
	case encodingA == utf16LE || encodingA == utf16BE:
		a, b = textA, textB
		note = fmt.Sprintf("\n[both are %s]", encodingA)
	}
	if bytes.Equal(a, b) {
		what := "have the same text"
		if result.EncodingA == "" {
			what += " but for characters that are damaged"
		}
		return output(result, fmt.Sprintf("[%s and %s %s]%s", nameA, nameB, what, note)), nil
	}
	around := diffContext
	if in.Context != nil {
		around = *in.Context
	}
	text, invalid, _ := clean(unified(nameA, nameB, a, b, lineChanges(a, b), around))
	if invalid > 0 {
		note += fmt.Sprintf("\n[not UTF-8: %s shown as U+FFFD]", plural(int64(invalid), "byte"))
	}
	result.Diff, result.Truncated = f.fit(call, text, len(note))
	return output(result, result.Diff+note), nil
}

// comparedText is the text that a content is compared as, by lines; ok is false for what is
// none. UTF-16 becomes UTF-8, a half of a character U+FFFD.
func comparedText(content []byte) (text []byte, encoding string, ok bool) {
	encoding = sniff(content[:min(len(content), headSize)]).encoding
	text = content
	if order, wide := utf16Order(encoding); wide {
		var err error
		if text, err = unicode.UTF16(order, unicode.UseBOM).NewDecoder().Bytes(content); err != nil {
			return nil, encoding, false
		}
	}
	return text, encoding, encoding != "" && bytes.Count(text, []byte{0}) <= len(text)/100
}

// withoutMark takes off a byte order mark.
func withoutMark(text []byte, encoding string) []byte {
	if encoding == utf8BOM {
		return text[len(utf8Mark):]
	}
	return text
}

// whole reads a file that is to be compared.
func (f *Files) whole(ctx context.Context, s *capabilities.Session, path string) (display string, content []byte, err error) {
	file, info, p, err := openFile(s.Workspace(), path)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	info, release, err := f.waitForWriter(ctx, file, info)
	if err != nil {
		return "", nil, err
	}
	defer release()
	content, err = readAll(ctx, file, info.Size(), maxDiff)
	if errors.Is(err, errTooLarge) {
		return "", nil, protocol.Errorf(protocol.CodePayloadTooLarge, "%s has more than %s bytes: use a command, diff for example", p.Display, count(maxDiff))
	}
	if err != nil {
		return "", nil, readError(ctx, err, p)
	}
	return p.Display, content, nil
}
