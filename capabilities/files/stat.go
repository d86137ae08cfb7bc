package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/search"
	"github.com/agent-executor/executor/protocol"
)

const (
	// statLimit is how many files a pattern may name, maxStatBytes how much of them is
	// read for hashes and lines in one call.
	statLimit    = 200
	maxStatBytes = 256 << 20
)

type statInput struct {
	Path string `json:"path,omitempty" jsonschema:"one file, link or directory; with glob the directory to look in"`
	Glob string `json:"glob,omitempty" jsonschema:"all that match: *, ?, [a-z], {a,b}, ** for directories"`
}

// Check refuses what no file can make right.
func (in statInput) Check() error {
	if in.Path == "" && in.Glob == "" {
		return protocol.Errorf(protocol.CodeInvalidParams, "give path or glob")
	}
	if _, err := search.ParsePattern("glob", in.Glob); err != nil {
		return err
	}
	return checkGlob(in.Glob)
}

type statEntry struct {
	Path     string `json:"path"`
	Exists   bool   `json:"exists"`
	Type     string `json:"type,omitempty"`
	Size     int64  `json:"size"`
	Mode     string `json:"mode,omitempty"`
	MTime    string `json:"mtime,omitempty"`
	SHA256   string `json:"sha256,omitempty"` // of a file up to 64 MiB
	Target   string `json:"target,omitempty"` // of a link
	Lines    *int64 `json:"lines,omitempty"`  // of a text
	Binary   bool   `json:"binary,omitempty"`
	Language string `json:"language,omitempty"`
	Error    string `json:"error,omitempty"` // why the content could not be read
}

type statOutput struct {
	Entries   []statEntry `json:"entries"`
	Total     int         `json:"total,omitempty"` // that match glob, also those that are not in Entries
	Truncated bool        `json:"truncated,omitempty"`
	Unread    []string    `json:"unreadable,omitempty"` // directories in which glob could not look
}

func (f *Files) addStat(r *capabilities.Registrar) {
	capabilities.AddTool(r, capabilities.Tool{
		Name: "stat",
		Description: "Say what is at a path, or at all that match a pattern: type, size, mode, times, SHA-256, lines, language. " +
			"A link is described itself.",
		Annotations: protocol.Annotations{ReadOnly: true, Idempotent: true},
	}, f.stat)
}

func (f *Files) stat(ctx context.Context, call *capabilities.Call, in statInput) (out protocol.ToolOutput, err error) {
	var result statOutput
	var text, notes strings.Builder
	err = again(func() error {
		result, notes = statOutput{Entries: []statEntry{}}, strings.Builder{}
		if in.Glob != "" {
			return f.statGlob(ctx, call.Session().Workspace(), in, &result, &notes)
		}
		e, err := f.statOne(ctx, call.Session().Workspace(), in.Path)
		result.Entries = append(result.Entries, e)
		return err
	})
	if err != nil {
		return out, err
	}
	for _, e := range result.Entries {
		text.WriteString(e.words())
	}
	note := strings.TrimSuffix(notes.String(), "\n")
	shown, _ := f.fit(call, strings.TrimSuffix(text.String(), "\n"), len(note)+1)
	if note != "" && shown != "" {
		note = "\n" + note
	}
	return output(result, shown+note), nil
}

func (f *Files) statOne(ctx context.Context, w *capabilities.Workspace, name string) (e statEntry, err error) {
	p, err := w.ResolveLink(name)
	var known *protocol.Error
	if errors.As(err, &known) && errors.Is(err, protocol.ErrNotFound) { // through something that is no directory
		return statEntry{Path: capabilities.QuoteName(capabilities.UnquoteName(name)), Error: known.Message}, nil
	}
	if err != nil {
		return e, err
	}
	e.Path = p.Display
	dir, base, err := p.OpenParent()
	if errors.Is(err, protocol.ErrNotFound) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	defer dir.Close()
	info, err := dir.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, capabilities.FileError(err, p.Display)
	}
	budget := int64(maxStatBytes)
	err = f.describe(ctx, &e, dir, base, info, &budget)
	return e, err
}

func (f *Files) statGlob(ctx context.Context, w *capabilities.Workspace, in statInput, result *statOutput, notes *strings.Builder) error {
	chosen, err := newChooser(w, in.Path, in.Glob)
	if err != nil {
		return err
	}
	fits, err := search.ParsePattern("glob", chosen.forLists())
	if err != nil {
		return err
	}
	if in.Path == "" {
		in.Path = "."
	}
	start, err := w.Resolve(in.Path)
	if err != nil {
		return err
	}
	k := &walker{ctx: ctx, start: start, recursive: fits.Deep(), fits: fits, most: statLimit}
	if err := k.run(); err != nil {
		return err
	}
	result.Total, result.Truncated, result.Unread = k.total, k.total > len(k.found), k.unreadable()
	switch {
	case k.total == 0:
		fmt.Fprintf(notes, "[nothing matches %s]\n%s", capabilities.QuoteName(in.Glob), chosen.hint)
	case result.Truncated:
		fmt.Fprintf(notes, "[only the first %s of %s; a narrower pattern or a deeper path shows others]\n", count(len(k.found)), count(k.total))
	}
	k.notSeen(notes)
	budget := int64(maxStatBytes)
	for _, found := range k.found {
		if err := ctx.Err(); err != nil {
			return err
		}
		e := statEntry{Path: below(start, found.rel)}
		p := start
		p.Rel, p.Display = filepath.Join(p.Rel, filepath.FromSlash(found.rel)), e.Path
		dir, base, err := p.OpenParent()
		if err != nil {
			continue // gone meanwhile
		}
		err = f.describe(ctx, &e, dir, base, found.info, &budget)
		dir.Close()
		if err != nil {
			return err
		}
		result.Entries = append(result.Entries, e)
	}
	return nil
}

// describe fills e in. Only a regular file is opened, and read as far as the budget
// allows.
func (f *Files) describe(ctx context.Context, e *statEntry, dir *os.Root, name string, info fs.FileInfo, budget *int64) error {
	e.Exists, e.Type, e.Size = true, kindOf(info.Mode()), info.Size()
	e.Mode, e.MTime = modeText(info.Mode()), timeText(info.ModTime())
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		target, _ := dir.Readlink(name)
		e.Target = capabilities.QuoteName(target)
		return nil
	case !mode.IsRegular():
		return nil
	}
	switch {
	case info.Size() > maxHash:
		e.Error = fmt.Sprintf("not read: it has more than %s bytes", count(maxHash))
	case info.Size() > *budget:
		e.Error = fmt.Sprintf("not read: one call reads at most %s bytes", count(maxStatBytes))
	}
	if e.Error != "" {
		e.Language = language(name, nil)
		return nil
	}
	*budget -= info.Size()
	err := f.content(ctx, e, dir, name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		e.Error = err.Error()
	}
	return nil
}

// content is what is known by reading.
func (f *Files) content(ctx context.Context, e *statEntry, dir *os.Root, name string) error {
	file, info, err := openIn(dir, name, capabilities.Path{Display: e.Path})
	if err != nil {
		return err
	}
	defer file.Close()
	info, release, err := f.waitForWriter(ctx, file, info)
	if err != nil {
		return err
	}
	defer release()
	buffer := f.buffer()
	defer f.giveBack(buffer)
	l := &look{p: capabilities.Path{Abs: e.Path}, info: info, window: window{first: 1}, page: &page{}}
	src, err := l.first(ctx, file, buffer, 0)
	if err != nil {
		return err
	}
	e.Size, e.SHA256 = l.size, l.content.String()
	if l.format.encoding == "" {
		e.Binary = true
		return nil
	}
	e.Lines = &l.found.total
	e.Language = language(name, src)
	return nil
}

func modeText(mode fs.FileMode) string {
	bits := uint32(mode.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return fmt.Sprintf("%04o", bits)
}

// words is an entry for people.
func (e statEntry) words() string {
	if !e.Exists && e.Error != "" {
		return e.Error + "\n"
	}
	if !e.Exists {
		return e.Path + ": does not exist\n"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s, %s, mode %s, changed %s", e.Path, e.Type, plural(e.Size, "byte"), e.Mode, e.MTime)
	if e.Target != "" {
		fmt.Fprintf(&b, ", leads to %s", e.Target)
	}
	if e.Lines != nil {
		fmt.Fprintf(&b, ", %s", plural(*e.Lines, "line"))
	}
	if e.Binary {
		b.WriteString(", binary")
	}
	if e.Language != "" {
		fmt.Fprintf(&b, ", %s", e.Language)
	}
	if e.SHA256 != "" {
		fmt.Fprintf(&b, ", sha256 %s", e.SHA256)
	}
	if e.Error != "" {
		fmt.Fprintf(&b, ", %s", e.Error)
	}
	return b.String() + "\n"
}
