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

// Root is one directory tree that file tools may work in.
type Root struct {
	Path     string
	ReadOnly bool // files below may be read, never changed
}

// Workspace is the part of the file system a session may touch: one or more
// root directories and the directory in which relative paths begin. Every path
// a tool is given goes through it.
//
// A root is a handle on a directory, not a name, so that nothing that happens to
// names between a check and a use can lead outside: Resolve only finds out which
// handle and which link-free path below it a name means, and whoever opens the
// result does so through the handle, with Path.OpenParent or Path.OpenDir.
//
// A Workspace may be used concurrently. Close ends it; its paths are no good
// afterwards. A nil Workspace is one in which no path is available.
type Workspace struct {
	dir   string // real
	roots []openRoot
}

// openRoot is a root with its handle.
type openRoot struct {
	Root
	spelled string // as configured, absolute and clean
	real    string // the same without symbolic links, as it was when opened
	handle  *os.Root
	top     *os.File // the same directory
	info    fs.FileInfo
	others  []fs.FileInfo // what the other roots are
}

// Path is a resolved path: a place below one root. It proves nothing about what
// is there now, only that going there through Root cannot leave the root.
type Path struct {
	Root    *os.Root // owned by the workspace
	Rel     string   // below Root, in the system's form, no links when it was resolved; "." is the root itself
	Abs     string   // for children's directories and for keys
	Display string   // for people and models: relative to the workspace's directory when inside, quoted by QuoteName
}

// OpenWorkspace opens the roots and starts relative paths at dir, which must be
// one of them or a directory below one. Roots may be links and may be nested; the
// innermost one decides whether a path may be written. The error is a
// *protocol.Error.
func OpenWorkspace(dir string, roots []Root) (*Workspace, error) {
	if len(roots) == 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "a workspace needs at least one root")
	}
	w := &Workspace{}
	for _, r := range roots {
		if err := w.open(r); err != nil {
			w.Close()
			return nil, unavailable(r.Path, err)
		}
	}
	for i := range w.roots {
		for j := range w.roots {
			if i != j {
				w.roots[i].others = append(w.roots[i].others, w.roots[j].info)
			}
		}
	}
	w.dir = w.roots[0].real
	abs, err := filepath.Abs(dir)
	if err == nil {
		w.dir, err = w.resolveDir(filepath.Clean(abs))
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *Workspace) open(r Root) error {
	spelled, err := filepath.Abs(r.Path)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(spelled)
	if err != nil {
		return err
	}
	for i := range w.roots {
		if w.roots[i].real == real { // the same one twice: the stricter word counts
			w.roots[i].ReadOnly = w.roots[i].ReadOnly || r.ReadOnly
			return nil
		}
	}
	handle, err := os.OpenRoot(real)
	if err != nil {
		return err
	}
	top, err := handle.Open(".")
	if err != nil {
		handle.Close()
		return err
	}
	info, err := top.Stat()
	if err != nil {
		top.Close()
		handle.Close()
		return err
	}
	w.roots = append(w.roots, openRoot{Root: r, spelled: spelled, real: real, handle: handle, top: top, info: info})
	return nil
}

// Close closes the handles of the roots. It may be called twice.
func (w *Workspace) Close() error {
	var errs []error
	for _, r := range w.roots {
		if err := r.top.Close(); !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
		errs = append(errs, r.handle.Close())
	}
	return errors.Join(errs...)
}

// Dir is the directory in which relative paths begin, without symbolic links.
func (w *Workspace) Dir() string { return w.dir }

// Roots lists the roots as they were given, the workspace's own first.
func (w *Workspace) Roots() []Root {
	roots := make([]Root, len(w.roots))
	for i, r := range w.roots {
		roots[i] = r.Root
	}
	return roots
}

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

// rootOf finds a root by identity: another spelling on a disk that ignores case,
// or another mount of it, is the same directory.
func (w *Workspace) rootOf(info fs.FileInfo) *openRoot {
	if !info.IsDir() {
		return nil
	}
	for i := range w.roots {
		if os.SameFile(info, w.roots[i].info) {
			return &w.roots[i]
		}
	}
	return nil
}

// HoldsRoot finds a root that is p or below it: such a place is not to be moved or
// deleted as a whole.
func (w *Workspace) HoldsRoot(p Path) (Root, bool) {
	for _, r := range w.roots {
		if _, ok := within(p.Abs, r.real); ok {
			return r.Root, true
		}
	}
	return Root{}, false
}

// IsRoot knows a root by identity, under whatever name it was found.
func (w *Workspace) IsRoot(info fs.FileInfo) bool { return w.rootOf(info) != nil }

func (r *openRoot) vanished() bool {
	info, err := os.Lstat(r.real)
	return err != nil || !os.SameFile(info, r.info)
}

// Above is a directory on the way from its root to p; rel is its part of p.Rel.
func (w *Workspace) Above(p Path, rel string) Path {
	abs := filepath.Join(strings.TrimSuffix(p.Abs, p.Rel), rel)
	return Path{Root: p.Root, Rel: rel, Abs: abs, Display: w.display(abs)}
}

func (w *Workspace) display(abs string) string {
	if rel, ok := within(w.dir, abs); ok {
		abs = rel
	}
	return QuoteName(filepath.ToSlash(abs))
}

func (w *Workspace) outside(name string) *protocol.Error {
	var roots []string
	for _, r := range w.roots {
		roots = append(roots, QuoteName(r.Path))
	}
	return protocol.Errorf(protocol.CodeForbidden, "%s is outside the workspace (%s)", QuoteName(name), strings.Join(roots, ", ")).
		WithReason(protocol.ReasonWorkspaceBoundary)
}

func unavailable(root string, err error) *protocol.Error {
	return protocol.Errorf(protocol.CodeResourceUnavailable, "the workspace root %s is not available: %v", QuoteName(root), err).
		WithReason(protocol.ReasonWorkspaceUnavailable)
}

// steps splits a path into its components; empty ones and dots go nowhere.
func steps(path string) []string {
	all := strings.FieldsFunc(filepath.ToSlash(path), func(r rune) bool { return r == '/' })
	return slices.DeleteFunc(all, func(s string) bool { return s == "." })
}

// within says where abs lies below dir; whole components count, so that
// /srv/share-secret is not within /srv/share.
func within(dir, abs string) (rel string, ok bool) {
	if len(abs) < len(dir) || !sameName(abs[:len(dir)], dir) {
		return "", false
	}
	rel = abs[len(dir):]
	switch {
	case rel == "":
		return ".", true
	case os.IsPathSeparator(rel[0]):
		return rel[1:], true
	case os.IsPathSeparator(dir[len(dir)-1]): // the root of the file system
		return rel, true
	}
	return "", false
}

func hasPrefix(path, prefix []string) bool {
	if len(path) < len(prefix) {
		return false
	}
	for i, step := range prefix {
		if !sameName(path[i], step) {
			return false
		}
	}
	return true
}
