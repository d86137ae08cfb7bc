package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxEdits is how many edits one call may have, maxEditTotal how many bytes their
	// files may have together.
	maxEdits     = 1000
	maxEditTotal = 4 * maxEdit
)

type editItem struct {
	Path       string `json:"path" jsonschema:"the file, relative to the workspace or absolute"`
	OldString  string `json:"old_string" jsonschema:"the text to replace, exactly as the edits before leave it"`
	NewString  string `json:"new_string" jsonschema:"what to put in its place, taken literally"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence; otherwise there must be exactly one"`
}

type multiEditInput struct {
	Edits           []editItem `json:"edits" jsonschema:"made one after the other, in one file or several"`
	UnsafeOverwrite bool       `json:"unsafe_overwrite,omitempty" jsonschema:"edit even files that have changed since this session read them"`
}

// Check refuses what no file can make right.
func (in multiEditInput) Check() error {
	if len(in.Edits) == 0 || len(in.Edits) > maxEdits {
		return protocol.Errorf(protocol.CodeInvalidParams, "edits: give 1 to %s of them, not %s", count(maxEdits), count(len(in.Edits)))
	}
	for i, e := range in.Edits {
		if err := checkStrings(fmt.Sprintf("edits[%d].", i), e.OldString, e.NewString); err != nil {
			return err
		}
	}
	return nil
}

type editedFile struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	SHA256       string `json:"sha256"`
}

type multiEditOutput struct {
	Replacements int          `json:"replacements"`
	Files        []editedFile `json:"files"`
	Diff         string       `json:"diff"`
	Truncated    bool         `json:"truncated,omitempty"` // of the diff
}

func (f *Files) addMultiEdit(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "multi_edit",
		Description: "Make several edits, in one file or more, each on the result of those before. " +
			"Either all are made or none; every one that cannot be made is named.",
		Annotations: protocol.Annotations{Destructive: true},
	}, f.multiEdit)
}

func (f *Files) multiEdit(ctx context.Context, call *capabilities.Call, in multiEditInput) (out protocol.ToolOutput, err error) {
	err = again(func() error {
		b := &batch{files: f, call: call, in: in, of: make([]*edited, len(in.Edits)), failed: make([]error, len(in.Edits))}
		defer b.close()
		out, err = b.run(ctx)
		return err
	})
	return out, err
}

// edited is one file of a batch, whatever names its edits use.
type edited struct {
	t            *target
	old, content []byte
	replacements int
	err          error // it cannot be edited at all
}

// batch is one multi_edit.
type batch struct {
	files *Files
	call  *capabilities.Call
	in    multiEditInput

	of     []*edited // the file of each edit, nil when its path is no good
	failed []error   // what is wrong with each edit
	all    []*edited // each file once
}

func (b *batch) close() {
	for _, e := range b.all {
		e.t.close()
	}
}

func (b *batch) run(ctx context.Context) (out protocol.ToolOutput, err error) {
	b.aim(ctx)
	release, err := b.lock(ctx)
	if err != nil {
		return out, err
	}
	defer release()
	if err := b.load(ctx); err != nil {
		return out, err
	}
	for i, item := range b.in.Edits {
		e := b.of[i]
		switch {
		case e == nil:
		case e.err != nil:
			b.failed[i] = e.err
		default:
			b.failed[i] = e.apply(item)
		}
	}
	if err := b.failure(); err != nil {
		return out, err
	}
	return b.write(ctx)
}

// aim finds the files. Several edits of one name share it.
func (b *batch) aim(ctx context.Context) {
	byKey := map[string]*edited{}
	for i, item := range b.in.Edits {
		t, _, err := b.files.aim(ctx, b.call.Session(), item.Path, false)
		if err != nil {
			b.failed[i] = err
			continue
		}
		key := fileKey(t.dir, t.name, t.p)
		if e := byKey[key]; e != nil {
			t.close()
			b.of[i] = e
			continue
		}
		e := &edited{t: t}
		byKey[key], b.of[i] = e, e
		b.all = append(b.all, e)
	}
}

// lock takes the locks of all files, and finds those that are one under two names.
func (b *batch) lock(ctx context.Context) (release func(), err error) {
	var keys, inodes []string
	for _, e := range b.all {
		keys = append(keys, fileKey(e.t.dir, e.t.name, e.t.p))
	}
	first, err := b.files.locks.acquireAll(ctx, keys...)
	if err != nil {
		return nil, err
	}
	same := map[string]*edited{}
	for _, e := range b.all {
		if e.err = e.t.look(); e.err != nil || !e.t.exists {
			continue
		}
		if key := inodeKey(e.t.info); key != "" {
			inodes = append(inodes, key)
			if other := same[key]; other != nil {
				b.join(e, other)
				continue
			}
			same[key] = e
		}
	}
	second, err := b.files.locks.acquireAll(ctx, inodes...)
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// join gives the edits of a file to the same one under another name.
func (b *batch) join(e, other *edited) {
	for i := range b.of {
		if b.of[i] == e {
			b.of[i] = other
		}
	}
}

func (b *batch) load(ctx context.Context) error {
	total := int64(0)
	for _, e := range b.all {
		if e.err != nil || !b.used(e) {
			continue
		}
		if e.t.info != nil {
			total += e.t.info.Size()
		}
		if total > maxEditTotal {
			return protocol.Errorf(protocol.CodePayloadTooLarge, "the files have more than %s bytes together: edit them in several calls", count(maxEditTotal))
		}
		e.old, e.err = e.t.current(ctx, b.in.UnsafeOverwrite)
		e.content = e.old
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (b *batch) used(e *edited) bool {
	for _, x := range b.of {
		if x == e {
			return true
		}
	}
	return false
}

func (e *edited) apply(item editItem) error {
	found := matches(e.content, item.OldString)
	switch {
	case len(found) == 0:
		return noMatch(e.t.p.Display, e.content, item.OldString)
	case len(found) > 1 && !item.ReplaceAll:
		return ambiguous(e.t.p.Display, e.content, found)
	}
	text, _, err := replace(e.content, found, item.OldString, item.NewString)
	if err == nil {
		e.content = text
		e.replacements += len(found)
	}
	return err
}

// maxFailures are told in full.
const maxFailures = 20

// failure lists what cannot be done. Its code and reason are those of the first one.
func (b *batch) failure() error {
	var first *protocol.Error
	var text strings.Builder
	n := 0
	for i, err := range b.failed {
		if err == nil {
			continue
		}
		var e *protocol.Error
		if !errors.As(err, &e) {
			return err
		}
		if e.Data.Retryable { // something was replaced at the same moment
			return e
		}
		if first == nil {
			first = e
		}
		if n++; n <= maxFailures {
			fmt.Fprintf(&text, "\nedits[%d] %s: %s: %s", i, named(b.in.Edits[i].Path), e.Reason(), e.Message)
		}
	}
	if first == nil {
		return nil
	}
	if n > maxFailures {
		fmt.Fprintf(&text, "\nand %d more", n-maxFailures)
	}
	failed := *first
	failed.Message = fmt.Sprintf("nothing was written: %d of %d edits cannot be made%s", n, len(b.in.Edits), text.String())
	return &failed
}

// write writes all files. When one cannot be written those before get their old
// content back.
func (b *batch) write(context.Context) (out protocol.ToolOutput, err error) {
	result := multiEditOutput{Files: []editedFile{}}
	var diffs bytes.Buffer
	var unsynced error // a file is written, but may not be on the disk
	for i, e := range b.all {
		if !b.used(e) {
			continue
		}
		if bytes.Equal(e.old, e.content) { // one edit took back another
			result.Files = append(result.Files, editedFile{e.t.p.Display, e.replacements, e.t.now.String()})
			continue
		}
		res, err := e.t.write(e.content)
		if !res.Changed {
			return protocol.ToolOutput{Mutations: b.back(i)}, err
		}
		now := e.t.written
		e.t.seen.put(e.t.p, now)
		if err != nil && unsynced == nil {
			unsynced = capabilities.FileError(err, e.t.p.Display)
		}
		out.Mutations = append(out.Mutations, protocol.Mutation{Op: opModify, Path: e.t.p.Display, SHA256: now.String()})
		result.Files = append(result.Files, editedFile{e.t.p.Display, e.replacements, now.String()})
		diffs.Write(unified(e.t.p.Display, e.t.p.Display, e.old, e.content, lineChanges(e.old, e.content), diffContext))
	}
	for _, file := range result.Files {
		result.Replacements += file.Replacements
	}
	head := fmt.Sprintf("Edited %s (%s)", plural(int64(len(result.Files)), "file"), plural(int64(result.Replacements), "replacement"))
	diff, _, _ := clean(diffs.Bytes())
	shown, truncated := b.files.fit(b.call, diff, len(head)+1)
	result.Diff, result.Truncated = shown, truncated
	out.Content, out.Structured = output(nil, head+"\n"+shown).Content, result
	return out, unsynced
}

// back undoes what was written before the n-th file, and returns what it could not
// undo.
func (b *batch) back(n int) (left []protocol.Mutation) {
	for _, e := range b.all[:n] {
		if !b.used(e) || bytes.Equal(e.old, e.content) {
			continue
		}
		again := *e.t
		again.unsafe = true
		if res, _ := again.write(e.old); res.Changed {
			e.t.seen.put(e.t.p, again.written)
			continue
		}
		left = append(left, protocol.Mutation{Op: opModify, Path: e.t.p.Display, SHA256: e.t.written.String()})
	}
	return left
}
