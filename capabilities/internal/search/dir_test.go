package search

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// collector notes what a walk shows it, with the text of the files.
type collector struct {
	t    *testing.T
	mu   *sync.Mutex
	seen *[]string
}

func (c collector) visit(d dir, path string, e entry) {
	line := path + e.name + " " + []string{"special", "file", "dir", "link"}[e.kind]
	k, _, err := d.look(e.name)
	assert.NoError(c.t, err)
	assert.Equal(c.t, e.kind, k)
	f, err := d.file(e.name)
	if e.kind == kindFile {
		if assert.NoError(c.t, err) {
			text, err := io.ReadAll(f)
			assert.NoError(c.t, err)
			line += " " + string(text)
		}
	} else if err == nil && e.kind != kindDir { // a directory can be opened here and not be read
		c.t.Errorf("%s was opened", line)
	}
	if err == nil {
		f.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.seen = append(*c.seen, line)
}

// Both ways to read directories show the same, and follow no link.
func TestDirectories(t *testing.T) {
	base := tree(t, "ws/a/b/c=text", "ws/a/n\xff=", "ws/.gitignore=skip\n", "ws/skip=", "ws/in -> a", "ws/out -> ../outside", "ws/file -> ../outside/f", "ws/broken -> /nope",
		"ws/empty/", "outside/f=secret")
	root, err := os.OpenRoot(base + "/ws")
	require.NoError(t, err)
	defer root.Close()
	other, err := root.OpenRoot(".")
	require.NoError(t, err)
	top, err := openTop(root)
	require.NoError(t, err)
	want := []string{".gitignore file skip\n", "a dir", "a/b dir", "a/b/c file text", "a/n\xff file ", "broken link", "empty dir", "file link", "in link", "out link"}
	for _, d := range []dir{top, rootDir{other}} {
		var seen []string
		var mu sync.Mutex
		s := &start{dir: d}
		walk(t.Context(), s, walkOptions{hidden: true}, func() visitor { return collector{t, &mu, &seen} })
		slices.Sort(seen)
		assert.Equal(t, want, seen)
		for _, name := range []string{"out", "in", "skip", "none"} {
			_, err := d.open(name)
			assert.True(t, gone(err), "%v", err)
		}
		_, err := d.file("none")
		assert.ErrorIs(t, err, fs.ErrNotExist)
		s.close()
	}
}
