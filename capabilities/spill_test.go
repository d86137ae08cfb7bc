package capabilities

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

func newWorkspace(t *testing.T) *Workspace {
	t.Helper()
	dir := t.TempDir()
	w, err := OpenWorkspace(dir, []Root{{Path: dir}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

func TestSpill(t *testing.T) {
	c := newCall(t, nil, CallConfig{ID: "toolu_01"})
	dir := c.Session().Workspace().Dir()
	require.NoDirExists(t, filepath.Join(dir, ".executor"), "nothing is made before it is needed")

	f, shown, err := c.Spill()
	require.NoError(t, err)
	require.Equal(t, ".executor/spill/toolu_01.txt", shown)
	again, _, err := c.Spill()
	require.NoError(t, err)
	require.Same(t, f, again)
	_, err = f.WriteString("all of it")
	require.NoError(t, err)
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	read, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "all of it", string(read), "the host can read it back")

	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, _, err = c.Spill()
	require.ErrorIs(t, err, protocol.ErrCanceled)
	_, err = f.WriteString("x")
	require.ErrorIs(t, err, os.ErrClosed)

	got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(shown)))
	require.NoError(t, err)
	require.Equal(t, "all of it", string(got))
	ignore, err := os.ReadFile(filepath.Join(dir, ".executor", ".gitignore"))
	require.NoError(t, err)
	require.Equal(t, "*\n", string(ignore))
	if runtime.GOOS != "windows" {
		for name, mode := range map[string]os.FileMode{".executor": 0o700, ".executor/spill": 0o700, shown: 0o600} {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), name)
		}
	}
}

func TestSpillNames(t *testing.T) {
	for id, want := range map[string]string{
		"call-1":                     "call-1",
		"A.b_c-1":                    "A.b_c-1",
		strings.Repeat("x", 64):      strings.Repeat("x", 64),
		"":                           "",
		".":                          "",
		"..":                         "",
		".hidden":                    "",
		"a/b":                        "",
		"../../etc/passwd":           "",
		`..\x`:                       "",
		"/abs":                       "",
		"a\x00b":                     "",
		"a b":                        "",
		"ä":                          "",
		"line\nbreak":                "",
		strings.Repeat("x", 65):      "",
		strings.Repeat("\xff", 9999): "",
	} {
		got := spillName(id)
		if want != "" {
			require.Equal(t, want, got)
		} else {
			require.Regexp(t, `^[0-9a-f]{32}$`, got, "%q", id)
		}
		f, shown, err := newCall(t, nil, CallConfig{ID: "x" + id}).Spill()
		require.NoError(t, err, "%q", id)
		require.NotNil(t, f)
		require.Equal(t, ".executor/spill", filepath.ToSlash(filepath.Dir(shown)))
	}
	require.NotEqual(t, spillName("a/b"), spillName("a/c"))
}

// Sessions may share a workspace; equal call ids do not share a file.
func TestSpillOfEqualIDs(t *testing.T) {
	w := newWorkspace(t)
	seen := map[string]bool{}
	for range 5 {
		c := NewCall(CallConfig{ID: "1", Session: NewSession(t.Context(), SessionConfig{Workspace: w})})
		_, shown, err := c.Spill()
		require.NoError(t, err)
		require.Regexp(t, `^\.executor/spill/1(-[0-9a-f]{8})?\.txt$`, shown)
		seen[shown] = true
		require.NoError(t, c.Close())
	}
	require.Len(t, seen, 5)
}

// No link in the workspace leads the file elsewhere.
func TestSpillThroughLinks(t *testing.T) {
	outside := t.TempDir()
	for name, prepare := range map[string]func(dir string) error{
		"directory out":    func(dir string) error { return os.Symlink(outside, filepath.Join(dir, ".executor")) },
		"directory inside": func(dir string) error { return os.Symlink(".", filepath.Join(dir, ".executor")) },
		"dangling":         func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, ".executor")) },
		"a file":           func(dir string) error { return os.WriteFile(filepath.Join(dir, ".executor"), nil, 0o600) },
		"spill out": func(dir string) error {
			if err := os.Mkdir(filepath.Join(dir, ".executor"), 0o700); err != nil {
				return err
			}
			return os.Symlink(outside, filepath.Join(dir, ".executor", "spill"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCall(t, nil, CallConfig{})
			require.NoError(t, prepare(c.Session().Workspace().Dir()))
			_, _, err := c.Spill()
			require.ErrorIs(t, err, protocol.ErrForbidden)
			require.ErrorContains(t, err, "workspace_boundary")
		})
	}

	// A link in place of the file itself is passed by, not followed.
	c := newCall(t, nil, CallConfig{ID: "id"})
	dir := c.Session().Workspace().Dir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".executor", "spill"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(outside, "stolen"), filepath.Join(dir, ".executor", "spill", "id.txt")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "ignore"), filepath.Join(dir, ".executor", ".gitignore")))
	_, shown, err := c.Spill()
	require.NoError(t, err)
	require.NotEqual(t, ".executor/spill/id.txt", shown)

	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSpillWithoutPlace(t *testing.T) {
	_, _, err := NewCall(CallConfig{ID: "1", Session: NewSession(t.Context(), SessionConfig{})}).Spill()
	require.ErrorIs(t, err, protocol.ErrResourceUnavailable)
	require.ErrorContains(t, err, "workspace_unavailable")

	dir := t.TempDir()
	w, err := OpenWorkspace(dir, []Root{{Path: dir, ReadOnly: true}})
	require.NoError(t, err)
	defer w.Close()
	_, _, err = NewCall(CallConfig{ID: "1", Session: NewSession(t.Context(), SessionConfig{Workspace: w})}).Spill()
	require.ErrorIs(t, err, protocol.ErrForbidden)
	require.NoDirExists(t, filepath.Join(dir, ".executor"))
}

// What a session's calls have spilled goes with it; what somebody else put there stays.
func TestSpillsEndWithTheSession(t *testing.T) {
	dir := t.TempDir()
	w, err := OpenWorkspace(dir, []Root{{Path: dir}})
	require.NoError(t, err)
	defer w.Close()
	s := NewSession(t.Context(), SessionConfig{Assign: protocol.SessionAssignParams{SessionID: "s"}, Workspace: w})
	c := NewCall(CallConfig{Session: s, ID: "c"})
	_, display, err := c.Spill()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	other := filepath.Join(dir, filepath.Dir(display), "other.txt")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	NewRegistry(nil).EndSession(s)
	require.NoFileExists(t, filepath.Join(dir, display))
	require.FileExists(t, other)
}
