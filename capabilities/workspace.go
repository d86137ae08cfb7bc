package capabilities

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/protocol"
)

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
