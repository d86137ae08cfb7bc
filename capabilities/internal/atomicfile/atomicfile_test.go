package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newDir returns a directory by path and by handle.
func newDir(t *testing.T) (string, *os.Root) {
	t.Helper()
	path := t.TempDir()
	return path, openDir(t, path)
}

func openDir(t *testing.T, path string) *os.Root {
	t.Helper()
	dir, err := os.OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	return dir
}

// names lists a directory, so that litter shows.
func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestWrite(t *testing.T) {
	big := strings.Repeat("new content\n", 30_000)
	for _, c := range []struct {
		name string
		old  *string
		new  string
		opts Options
		want Result
		err  error
	}{
		{name: "create", new: "a", want: Result{Changed: true, Created: true}},
		{name: "create empty", new: "", want: Result{Changed: true, Created: true}},
		{name: "create, nothing there", new: "a", opts: Options{New: true}, want: Result{Changed: true, Created: true}},
		{name: "create, something there", old: ptr("old"), new: "a", opts: Options{New: true}, err: fs.ErrExist},
		{name: "longer", old: ptr("old"), new: big, want: Result{Changed: true}},
		{name: "shorter", old: ptr(big), new: "a", want: Result{Changed: true}},
		{name: "to nothing", old: ptr(big), new: "", want: Result{Changed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, dir := newDir(t)
			file := filepath.Join(path, "f")
			if c.old != nil {
				require.NoError(t, os.WriteFile(file, []byte(*c.old), 0o640))
			}
			got, err := Write(dir, "f", []byte(c.new), c.opts)
			want := c.new
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				want = *c.old
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, want, content(t, file))
			assert.Equal(t, []string{"f"}, names(t, path), "no litter")
		})
	}
}

func ptr(s string) *string { return &s }

func TestWriteRefusesWhatIsNoFile(t *testing.T) {
	path, dir := newDir(t)
	require.NoError(t, os.Mkdir(filepath.Join(path, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(path, "f"), []byte("old"), 0o644))
	require.NoError(t, os.Symlink("f", filepath.Join(path, "l")))
	for _, name := range []string{"d", "l"} {
		_, err := Write(dir, name, []byte("new"), Options{})
		require.ErrorIs(t, err, ErrNotRegular, name)
	}
	assert.Equal(t, "old", content(t, filepath.Join(path, "f")))
	assert.Equal(t, []string{"d", "f", "l"}, names(t, path))
}

// A check that fails at the last moment leaves everything as it was.
func TestCheckEndsTheWrite(t *testing.T) {
	refused := errors.New("refused")
	path, dir := newDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(path, "f"), []byte("old"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(path, "linked"), []byte("old"), 0o644))
	require.NoError(t, os.Link(filepath.Join(path, "linked"), filepath.Join(path, "too")))
	for _, name := range []string{"f", "linked", "new"} {
		got, err := Write(dir, name, []byte("new"), Options{Check: func() error { return refused }})
		require.ErrorIs(t, err, refused)
		assert.Equal(t, Result{}, got)
	}
	assert.Equal(t, "old", content(t, filepath.Join(path, "f")))
	assert.Equal(t, "old", content(t, filepath.Join(path, "linked")))
	assert.Equal(t, []string{"f", "linked", "too"}, names(t, path))
}

// A file that appears between the look and the rename is not lost.
func TestCreateDoesNotReplaceANewcomer(t *testing.T) {
	path, dir := newDir(t)
	file := filepath.Join(path, "f")
	for name, rename := range map[string]func(*os.Root, *os.File, string, string) error{
		"rename": renameNew,
		"link":   func(dir *os.Root, _ *os.File, from, to string) error { return linkNew(dir, from, to) },
	} {
		require.NoError(t, os.WriteFile(file, []byte("newcomer"), 0o644))
		handle, err := dir.Open(".")
		require.NoError(t, err)
		defer handle.Close()
		require.NoError(t, os.WriteFile(filepath.Join(path, "from"), []byte("ours"), 0o644))
		require.ErrorIs(t, rename(dir, handle, "from", "f"), fs.ErrExist, name)
		assert.Equal(t, "newcomer", content(t, file))

		require.NoError(t, os.Remove(file))
		require.NoError(t, rename(dir, handle, "from", "f"), name)
		assert.Equal(t, "ours", content(t, file))
		assert.Equal(t, []string{"f"}, names(t, path))
	}
	_, err := Write(dir, "g", []byte("ours"), Options{Check: func() error {
		return os.WriteFile(filepath.Join(path, "g"), []byte("newcomer"), 0o644)
	}})
	require.ErrorIs(t, err, fs.ErrExist)
	assert.Equal(t, "newcomer", content(t, filepath.Join(path, "g")))
}

// A reader that comes at any time sees a whole content, old or new.
func TestReadersSeeWholeContents(t *testing.T) {
	path, dir := newDir(t)
	a, b := bytes.Repeat([]byte("a"), 200_000), bytes.Repeat([]byte("b"), 100_000)
	require.NoError(t, os.WriteFile(filepath.Join(path, "f"), a, 0o644))
	done := make(chan error, 1)
	go func() {
		for i := range 60 {
			if _, err := Write(dir, "f", [][]byte{a, b}[i%2], Options{}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		got, err := os.ReadFile(filepath.Join(path, "f"))
		require.NoError(t, err)
		if !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Fatalf("%d bytes, starting with %q", len(got), got[:min(len(got), 10)])
		}
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
		}
	}
}

// Until the new content is complete there is nothing beside the old one, so that a crash
// leaves nothing; where the system cannot do that, a file with a name serves as well.
func TestNameless(t *testing.T) {
	for _, named := range []bool{false, true} {
		for _, had := range []string{"", "old"} {
			path, dir := newDir(t)
			var want []string
			if had != "" {
				require.NoError(t, os.WriteFile(filepath.Join(path, "f"), []byte(had), 0o751))
				want = []string{"f"}
			}
			var beside []string
			w := &writer{dir: dir, name: "f", content: strings.NewReader("new"), named: named, opts: Options{Check: func() error {
				beside = names(t, path)
				return nil
			}}}
			res, err := w.write()
			require.NoError(t, err)
			assert.Equal(t, Result{Changed: true, Created: had == ""}, res)
			assert.Equal(t, "new", content(t, filepath.Join(path, "f")))
			assert.Equal(t, []string{"f"}, names(t, path))
			if runtime.GOOS == "linux" && !named {
				assert.Equal(t, want, beside)
			} else {
				assert.Len(t, beside, len(want)+1)
			}
			// Somebody else was quicker.
			w = &writer{dir: dir, name: "g", content: strings.NewReader("mine"), named: named, opts: Options{Check: func() error {
				return os.WriteFile(filepath.Join(path, "g"), []byte("theirs"), 0o600)
			}}}
			_, err = w.write()
			require.ErrorIs(t, err, fs.ErrExist)
			assert.Equal(t, "theirs", content(t, filepath.Join(path, "g")))
			assert.Equal(t, []string{"f", "g"}, names(t, path))
		}
	}
}

// What is to be done meanwhile is done once and before the check, however the file is written.
func TestMeanwhile(t *testing.T) {
	path, dir := newDir(t)
	for _, name := range []string{"new", "there", "linked"} {
		if name != "new" {
			require.NoError(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
		}
		if name == "linked" {
			require.NoError(t, os.Link(filepath.Join(path, name), filepath.Join(path, "too")))
		}
		done := 0
		_, err := Write(dir, name, []byte("x"), Options{Meanwhile: func() { done++ }, Check: func() error {
			assert.Equal(t, 1, done)
			return errBroken
		}})
		require.ErrorIs(t, err, errBroken)
		assert.Equal(t, 1, done, name)
	}
	assert.Equal(t, []string{"linked", "there", "too"}, names(t, path))
}

// failing gives some of a content, once or each time it is read from its start.
type failing struct {
	*bytes.Reader
	left int
}

func (f *failing) Read(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errBroken
	}
	return f.Reader.Read(p[:min(len(p), 10)])
}

// WriteTo hides the one of bytes.Reader.
func (f *failing) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f})
}

var errBroken = errors.New("broken")

// Content that is not in memory is written like any other, and when it cannot be read
// to its end the old one is still there.
func TestWriteFrom(t *testing.T) {
	for _, links := range []int{1, 2} {
		path, dir := newDir(t)
		file := filepath.Join(path, "f")
		require.NoError(t, os.WriteFile(file, []byte("old content"), 0o640))
		if links == 2 {
			require.NoError(t, os.Link(file, filepath.Join(path, "g")))
		}
		text := strings.Repeat("0123456789", 20)
		res, err := WriteFrom(dir, "f", &failing{bytes.NewReader([]byte(text)), 5}, int64(len(text)), Options{})
		require.ErrorIs(t, err, errBroken)
		assert.False(t, res.Changed)
		assert.Equal(t, "old content", content(t, file))
		assert.Len(t, names(t, path), links, "no litter")

		res, err = WriteFrom(dir, "f", &failing{bytes.NewReader([]byte(text)), 1000}, int64(len(text)), Options{})
		require.NoError(t, err)
		assert.Equal(t, Result{Changed: true, InPlace: links == 2}, res)
		assert.Equal(t, text, content(t, file))
	}
}

func TestCopyAttributes(t *testing.T) {
	path, _ := newDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(path, "a"), nil, 0o751))
	require.NoError(t, os.WriteFile(filepath.Join(path, "b"), []byte("b"), 0o600))
	a, err := os.Open(filepath.Join(path, "a"))
	require.NoError(t, err)
	defer a.Close()
	b, err := os.Open(filepath.Join(path, "b"))
	require.NoError(t, err)
	defer b.Close()
	require.NoError(t, CopyAttributes(a, b))
	info, err := b.Stat()
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o751), info.Mode())
	assert.Equal(t, "b", content(t, filepath.Join(path, "b")))
	assert.NotEqual(t, TempName(), TempName())
}
