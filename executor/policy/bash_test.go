//go:build unix

package policy

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What passes for reading is given to a bash in which every program is one that only says its name: nothing else
// may run, and nothing may change. Most scripts that are made up here pass for nothing.
func TestBashAgreesOnWhatReads(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	stubs, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	names := words("rm sh bash evil touch x a tee xargs env sudo")
	for name := range readers {
		names = append(names, name)
	}
	for _, name := range names {
		if name == "[" || name == ":" {
			continue
		}
		script := "#!" + bash + "\necho '" + name + "' >> '" + log + "'\n"
		require.NoError(t, os.WriteFile(filepath.Join(stubs, name), []byte(script), 0o700))
	}
	tokens := []string{"ls", "cat", "echo", "git", "git status", "sort", "head -n 1", "-o", "-n", "x", "a", "*", "a*", "''", `"a b"`, "'x;y'", `\`, "\\\n", "$", "$X", "`", "(", ")", "{", "}", ",", "; ", " & ", " | ", " && ", " || ",
		" > ", ">>", " < ", "<<", "EOF", "\n", " ", " ", " ", "# ", "=", "~", "! ", "[", "]", "2>", "&1", ">&2", " >/dev/null", "2>&1", "rm", "rm x", "eval", "X=1 ", "$'x'", "<(", "\t", "if", "then", "fi", "x()", "\\\r\n", "\r", "-", "--", "@(", "!!", "^", "%"}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	read := trusting(t, TrustReadOnly)
	var scripts []string
	for len(scripts) < 40 {
		parts := []string{[]string{"ls ", "cat ", "echo ", "git status", "sort ", "head "}[random.IntN(6)]}
		for range 1 + random.IntN(5) {
			parts = append(parts, tokens[random.IntN(len(tokens))])
		}
		if s := strings.Join(parts, ""); read.Decide(request(s)).Action == Allow {
			scripts = append(scripts, s)
		}
	}
	for _, s := range scripts {
		dir := t.TempDir()
		for _, f := range []string{"x", "a", "ab", "-o"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(f), 0o600))
		}
		require.NoError(t, os.RemoveAll(log))
		c := exec.Command(bash, "-c", s)
		c.Dir, c.Env = dir, []string{"PATH=" + stubs, "HOME=" + dir}
		_ = c.Run() // it may fail
		raw, _ := os.ReadFile(log)
		for name := range strings.FieldsSeq(string(raw)) {
			_, ok := readers[name]
			require.True(t, ok, "%q ran %s", s, name)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 4, "%q made a file", s)
		for _, f := range []string{"x", "a", "ab", "-o"} {
			text, err := os.ReadFile(filepath.Join(dir, f))
			require.NoError(t, err)
			require.Equal(t, f, string(text), "%q changed a file", s)
		}
	}
}
