package search

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/capabilities"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree makes files below a new directory: "a/b" with its own path in it, "a/b=text", the
// directory "a/" and the link "a -> b".
func tree(t testing.TB, entries ...string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	grow(t, base, entries...)
	return base
}

func grow(t testing.TB, base string, entries ...string) {
	t.Helper()
	for _, e := range entries {
		name, target, link := strings.Cut(e, " -> ")
		name, text, given := strings.Cut(name, "=")
		path := filepath.Join(base, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if !given {
			text = name + "\n"
		}
		if link {
			require.NoError(t, os.Symlink(target, path))
		} else {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
}

// workspace opens dir as a workspace of one root.
func workspace(t testing.TB, dir string) *capabilities.Workspace {
	t.Helper()
	w, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	return w
}
