package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// globbed finds what must be findable and returns it in order.
func globbed(t *testing.T, w *capabilities.Workspace, o GlobOptions) []string {
	t.Helper()
	found, err := Glob(t.Context(), w, o)
	require.NoError(t, err)
	require.Equal(t, found.Count, len(found.Matches))
	slices.Sort(found.Matches)
	return found.Matches
}

func TestGlob(t *testing.T) {
	base := tree(t, "a.go", "b.txt", "src/c.go", "src/deep/er/d.go", "src/x.tar.gz", "test/e_test.go", "[x].txt", "ä.md", "src/link -> ../a.go",
		"empty/", "dir.go/f", ".hidden/h.go", ".env", ".github/w/ci.yml", "up -> ..", "broken -> /nope/nope")
	w := workspace(t, base)
	for pattern, want := range map[string]string{
		"*.go":                      "a.go",
		"**/*.go":                   "a.go src/c.go src/deep/er/d.go test/e_test.go",
		"**/*.{go,gz}":              "a.go src/c.go src/deep/er/d.go src/x.tar.gz test/e_test.go",
		"{src,test}/*.go":           "src/c.go test/e_test.go",
		"{src/{c,d},test/*}.go":     "src/c.go test/e_test.go",
		"src/**":                    "src/c.go src/deep/er/d.go src/link src/x.tar.gz",
		"src/**/d.go":               "src/deep/er/d.go",
		"src/**/c.go":               "src/c.go",
		"src/*/*/d.go":              "src/deep/er/d.go",
		"s*/*/*/*.go":               "src/deep/er/d.go",
		"s*/*.go":                   "src/c.go",
		"./src/./*.go":              "src/c.go",
		"src/../*.go":               "a.go",
		"?.go":                      "a.go",
		"?.md":                      "ä.md",
		"[ä-ü].md":                  "ä.md",
		"[a-c].*":                   "a.go b.txt",
		"[!a].*":                    "b.txt ä.md",
		`\[x\].txt`:                 "[x].txt",
		`[\[]x[]].txt`:              "[x].txt",
		"a.go":                      "a.go",
		"none":                      "",
		"*/":                        "dir.go empty src test",
		"src/*/":                    "src/deep",
		"src/":                      "src",
		"src":                       "",
		"**/er/":                    "src/deep/er",
		base + "/src/*.go":          "src/c.go",
		base + "/**/d.go":           "src/deep/er/d.go",
		".env":                      ".env",
		".*":                        ".env",
		"**/.env":                   ".env",
		".github/**":                ".github/w/ci.yml",
		"**/.github/**/*.yml":       ".github/w/ci.yml",
		"{.github,.hidden}/**":      ".github/w/ci.yml .hidden/h.go",
		"**/ci.yml":                 "",
		"up":                        "up",
		"up/*":                      "!" + protocol.ReasonWorkspaceBoundary,
		"bro*":                      "broken", // case 73
		"/etc/*":                    "!" + protocol.ReasonWorkspaceBoundary,
		"../*":                      "!" + protocol.ReasonWorkspaceBoundary,
		"nodir/*.go":                "!not_found",
		"a.go/*":                    "!invalid_params",
		"":                          "!invalid_params",
		"[a":                        "!invalid_params",
		"{a":                        "!invalid_params",
		"a}":                        "!invalid_params",
		`a\`:                        "!invalid_params",
		"*/../x":                    "!invalid_params",
		"a\x00":                     "!invalid_params",
		strings.Repeat("a", 1e5):    "!invalid_params",
		strings.Repeat("{a,b}", 15): "!invalid_params",
	} {
		t.Run(pattern[:min(len(pattern), 40)], func(t *testing.T) {
			if reason, bad := strings.CutPrefix(want, "!"); bad {
				_, err := Glob(t.Context(), w, GlobOptions{Pattern: pattern})
				var e *protocol.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, reason, e.Reason(), "%v", err)
				return
			}
			assert.Equal(t, want, strings.Join(globbed(t, w, GlobOptions{Pattern: pattern}), " "))
		})
	}
	assert.Equal(t, "src/deep/er/d.go", strings.Join(globbed(t, w, GlobOptions{Path: "src/deep", Pattern: "**/*.go"}), " "))
	assert.Equal(t, "src/c.go", strings.Join(globbed(t, w, GlobOptions{Path: base + "/src", Pattern: "*.go"}), " "))
	assert.Equal(t, ".hidden/h.go a.go", strings.Join(globbed(t, w, GlobOptions{Pattern: "{*,.*/*}.go", Hidden: true}), " "))
	assert.Equal(t, ".hidden/h.go", strings.Join(globbed(t, w, GlobOptions{Path: ".hidden", Pattern: "*"}), " "))
}

// The newest come first, also across the limit, and the rest is counted.
func TestGlobOrder(t *testing.T) {
	base := tree(t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1500 {
		path := filepath.Join(base, fmt.Sprintf("d%d", i%7), fmt.Sprintf("f%04d", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		changed := at.Add(time.Duration(i/2) * time.Second)
		require.NoError(t, os.Chtimes(path, changed, changed))
	}
	found, err := Glob(t.Context(), workspace(t, base), GlobOptions{Pattern: "**", Limit: 3})
	require.NoError(t, err)
	assert.Equal(t, 1500, found.Count)
	assert.Equal(t, []string{"d0/f1498", "d1/f1499", "d5/f1496"}, found.Matches)
}

// Names that are no text are found, by patterns too, and can be given back (case 79).
func TestGlobNames(t *testing.T) {
	base := tree(t, "good.txt", "bad\xff.txt", "line\nfeed.txt", "$'x'.txt", "d\xfe/in.txt")
	w := workspace(t, base)
	all := globbed(t, w, GlobOptions{Pattern: "**/*.txt"})
	assert.Equal(t, []string{`$'bad\xff.txt'`, `$'d\xfe/in.txt'`, `$'line\nfeed.txt'`, "$'x'.txt", "good.txt"}, all)
	for _, name := range all {
		_, err := w.Resolve(name)
		require.NoError(t, err)
		assert.Equal(t, []string{name}, globbed(t, w, GlobOptions{Pattern: strings.ReplaceAll(name, "$'x'", `$'x'`)}), name)
	}
	assert.Equal(t, []string{`$'bad\xff.txt'`}, globbed(t, w, GlobOptions{Pattern: "bad?.txt"}))
	assert.Equal(t, []string{`$'d\xfe/in.txt'`}, globbed(t, w, GlobOptions{Pattern: "*.txt", Path: `$'d\xfe'`}))
}

func TestGlobCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Glob(ctx, workspace(t, tree(t, "a/b/c")), GlobOptions{Pattern: "**"})
	require.ErrorIs(t, err, context.Canceled)
}
