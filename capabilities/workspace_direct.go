package capabilities

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// OpenRegular opens for reading the regular file that path means, when there is nothing
// on the way that needs a closer look: no link, no other file system, no dots that lead
// up. That is most paths, and costs a third of what the long way does. When ok is
// false, Resolve and what follows it say what there is. The caller closes the file.
func (w *Workspace) OpenRegular(path string) (f *os.File, info fs.FileInfo, p Path, ok bool) {
	root, rel, ok := w.direct(UnquoteName(path))
	if !ok || rel == "." || root.vanished() {
		return nil, nil, Path{}, false
	}
	if f, ok = openRegular(root.top, rel, root.others); !ok {
		return nil, nil, Path{}, false
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, nil, Path{}, false
	}
	return f, info, w.pathAt(root, rel), true
}

// direct names the place that a name means if there are no links in it and no other root
// by another name.
func (w *Workspace) direct(name string) (root *openRoot, rel string, ok bool) {
	if w == nil || name == "" || strings.IndexByte(name, 0) >= 0 || halfAbsolute(name) {
		return nil, "", false
	}
	cur, rest := w.start(name)
	if slices.Contains(rest, "..") {
		return nil, "", false
	}
	root, rel = w.locate(filepath.Join(cur, filepath.Join(rest...)))
	return root, rel, root != nil
}

// pathAt is the place rel below a root.
func (w *Workspace) pathAt(root *openRoot, rel string) Path {
	abs := filepath.Join(root.real, rel)
	return Path{Root: root.handle, Rel: rel, Abs: abs, Display: w.display(abs)}
}
