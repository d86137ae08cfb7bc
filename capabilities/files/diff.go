package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
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
	Identical bool   `json:"identical"`
	Binary    bool   `json:"binary,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (f *Files) addDiff(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name:        "diff",
		Description: "Compare two files, or a file with a text, as a unified diff.",
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
	switch {
	case bytes.Equal(a, b):
		result.Identical = true
		return output(result, fmt.Sprintf("[%s and %s are identical]", nameA, nameB)), nil
	case isBinary(a) || isBinary(b):
		result.Binary = true
		return output(result, fmt.Sprintf("[%s and %s differ; binary, not shown: %s and %s]", nameA, nameB,
			plural(int64(len(a)), "byte"), plural(int64(len(b)), "byte"))), nil
	}
	around := diffContext
	if in.Context != nil {
		around = *in.Context
	}
	text, invalid, _ := clean(unified(nameA, nameB, a, b, lineChanges(a, b), around))
	note := ""
	if invalid > 0 {
		note = fmt.Sprintf("\n[not UTF-8: %s shown as U+FFFD]", plural(int64(invalid), "byte"))
	}
	result.Diff, result.Truncated = f.fit(call, text, len(note))
	return output(result, result.Diff+note), nil
}

// isBinary: a text is compared by lines, anything else is not.
func isBinary(content []byte) bool {
	switch sniff(content[:min(len(content), headSize)]).encoding {
	case utf8Text, utf8BOM:
		return bytes.Count(content, []byte{0}) > len(content)/100
	}
	return true
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
