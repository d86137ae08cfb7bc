package capabilities

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/agent-executor/executor/protocol"
)

// maxLinks is how many symbolic links one path may lead through, as in Linux.
const maxLinks = 40

// maxPath is how many bytes a path may have: more than a system opens by name, and few
// enough that going along it one step at a time takes no time.
const maxPath = 8 << 10

// Resolve finds the place that path means, following symbolic links, whether or
// not there is something. The error is a *protocol.Error: forbidden with reason
// workspace_boundary for a place outside the roots, invalid_params for no path at
// all, not_found for a path through something that is no directory,
// resource_unavailable with reason workspace_unavailable when the root is gone.
func (w *Workspace) Resolve(path string) (Path, error) { return w.resolve(path, true, false) }

// ResolveWrite is Resolve for a place that is about to be changed: below a
// read-only root it is forbidden with reason workspace_read_only.
func (w *Workspace) ResolveWrite(path string) (Path, error) { return w.resolve(path, true, true) }

// ResolveLink is Resolve without following a link at the very end, even with a
// slash or a dot behind it: for tools that look at, move or delete the link itself.
func (w *Workspace) ResolveLink(path string) (Path, error) { return w.resolve(path, false, false) }

// ResolveWriteLink is ResolveLink for a place that is about to be changed.
func (w *Workspace) ResolveWriteLink(path string) (Path, error) { return w.resolve(path, false, true) }

// ResolveDir is Resolve for the directory of a command: absolute, without links,
// inside the roots when it was looked at. Its name is all a child process can be
// given, so a swap after that is not excluded here as it is for files.
func (w *Workspace) ResolveDir(path string) (string, error) { return w.resolveDir(path) }

func (w *Workspace) resolveDir(path string) (string, error) {
	p, err := w.resolve(path, true, false)
	if err != nil {
		return "", err
	}
	dir, err := p.OpenDir()
	if err != nil {
		return "", err
	}
	dir.Close()
	return p.Abs, nil
}

func (w *Workspace) resolve(path string, follow, write bool) (Path, error) {
	if w == nil {
		return Path{}, protocol.Errorf(protocol.CodeResourceUnavailable, "the session has no workspace").
			WithReason(protocol.ReasonWorkspaceUnavailable)
	}
	name := UnquoteName(path)
	switch {
	case name == "":
		return Path{}, protocol.Errorf(protocol.CodeInvalidParams, "the path is empty")
	case len(name) > maxPath:
		return Path{}, protocol.Errorf(protocol.CodeInvalidParams, "the path %s… has %d bytes: at most %d are taken", QuoteName(strings.ToValidUTF8(name[:maxNamed], "")), len(name), maxPath)
	case strings.ContainsRune(name, 0):
		return Path{}, protocol.Errorf(protocol.CodeInvalidParams, "the path %s contains a NUL character", QuoteName(name))
	}
	root, rel, ok := w.direct(name)
	vanished := ok && root.vanished()
	if !ok || vanished || !linkless(root.top, rel, follow, root.others) {
		cur, err := w.walk(name, follow)
		if err != nil {
			return Path{}, err
		}
		root, rel = w.locate(cur)
		vanished = root != nil && root.vanished()
	}
	switch {
	case root == nil:
		return Path{}, w.outside(name)
	case vanished: // what is reached through the handle is no longer the root
		return Path{}, unavailable(root.Path, errors.New("it was removed or replaced by another directory"))
	case write && root.ReadOnly:
		return Path{}, protocol.Errorf(protocol.CodeForbidden, "%s is below %s, which is read-only", QuoteName(name), QuoteName(root.Path)).
			WithReason(protocol.ReasonWorkspaceReadOnly)
	}
	return w.pathAt(root, rel), nil
}

// walk takes name apart and goes along it one step at a time as the kernel would,
// so that `..` behind a link means the link's target's parent. What it returns is
// an absolute path without links. Inside a root it looks through the root's
// handle. Outside it only looks for the way into a root; what it sees there
// never shows in the answer.
func (w *Workspace) walk(name string, follow bool) (cur string, err error) {
	if halfAbsolute(name) {
		return "", w.outside(name)
	}
	cur, rest := w.start(name)
	var missing *openRoot // cur is not there; it is in this root, and so is what would be below
	for links := 0; len(rest) > 0; {
		step := rest[0]
		rest = rest[1:]
		if step == ".." {
			cur, missing = filepath.Dir(cur), nil
			continue
		}
		next := filepath.Join(cur, step)
		root, _ := w.locate(next)
		if root != nil && root == missing {
			cur = next
			continue
		}
		info, err := w.lstat(next)
		switch {
		case err != nil && root == nil:
			return "", w.outside(name)
		case errors.Is(err, fs.ErrNotExist):
			cur, missing = next, root
			continue
		case errors.Is(err, syscall.ENOTDIR):
			return "", protocol.Errorf(protocol.CodeNotFound, "%s does not exist: %s is not a directory", QuoteName(name), w.display(cur))
		case err != nil:
			return "", FileError(err, w.display(next))
		}
		if info.Mode()&fs.ModeSymlink == 0 || (len(rest) == 0 && !follow) {
			cur = next
			if inner := w.rootOf(info); inner != nil {
				cur = inner.real
			}
			continue
		}
		if links++; links > maxLinks {
			return "", protocol.Errorf(protocol.CodeNotFound, "%s: too many levels of symbolic links", QuoteName(name))
		}
		target, err := w.readlink(next)
		if errors.Is(err, syscall.EINVAL) { // a link a moment ago
			err = errSwapped
		}
		if err != nil {
			return "", FileError(err, w.display(next))
		}
		switch {
		case halfAbsolute(target):
			return "", w.outside(name)
		case filepath.IsAbs(target):
			var steps []string
			cur, steps = w.start(target)
			rest = append(steps, rest...)
		default:
			rest = append(steps(target), rest...)
		}
	}
	return cur, nil
}

// halfAbsolute knows what Windows would complete with a current directory of its
// own: \name and C:name.
func halfAbsolute(name string) bool {
	return name != "" && !filepath.IsAbs(name) && (filepath.VolumeName(name) != "" || os.IsPathSeparator(name[0]))
}

// start says where a path begins and which steps it takes from there. A root's
// name is taken for the root as it was opened, without looking at it again.
func (w *Workspace) start(name string) (cur string, rest []string) {
	if !filepath.IsAbs(name) {
		root, rel := w.locate(w.dir)
		return root.real, append(steps(rel), steps(name)...)
	}
	volume := filepath.VolumeName(name)
	cur, rest = volume+string(filepath.Separator), steps(name[len(volume):])
	best := -1
	for _, r := range w.roots {
		for _, prefix := range []string{r.spelled, r.real} {
			v := filepath.VolumeName(prefix)
			if p := steps(prefix[len(v):]); len(p) > best && sameName(v, volume) && hasPrefix(rest, p) {
				best, cur = len(p), r.real
			}
		}
	}
	return cur, rest[max(best, 0):]
}

// lstat looks at an absolute path without following it: by handle inside the
// roots, by name outside.
func (w *Workspace) lstat(abs string) (fs.FileInfo, error) {
	if root, rel := w.locate(abs); root != nil {
		return root.handle.Lstat(rel)
	}
	return os.Lstat(abs)
}

func (w *Workspace) readlink(abs string) (string, error) {
	if root, rel := w.locate(abs); root != nil {
		return root.handle.Readlink(rel)
	}
	return os.Readlink(abs)
}

// locate finds the innermost root that abs, a path without links, is in.
func (w *Workspace) locate(abs string) (root *openRoot, rel string) {
	for i := range w.roots {
		r := &w.roots[i]
		if below, ok := within(r.real, abs); ok && (root == nil || len(r.real) > len(root.real)) {
			root, rel = r, below
		}
	}
	return root, rel
}

// steps splits a path into its components; empty ones and dots go nowhere.
func steps(path string) []string {
	all := strings.FieldsFunc(filepath.ToSlash(path), func(r rune) bool { return r == '/' })
	return slices.DeleteFunc(all, func(s string) bool { return s == "." })
}
