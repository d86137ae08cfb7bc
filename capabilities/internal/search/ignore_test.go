package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pairs is how many paths the comparison with git looks at: IGNORE_PAIRS, or a number
// that is quick.
func pairs(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("IGNORE_PAIRS")); err == nil {
		return n
	}
	if os.Getenv("EXECUTOR_STRESS") != "" {
		return 10_000
	}
	return 2000
}

// Whatever the lines of a .gitignore are, the same is ignored as by git.
func TestIgnoreAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not there")
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	yes, no := 0, 0
	for round, left := 0, pairs(t); left > 0 || min(yes, no) == 0; round++ { // a round may have rules that say nothing
		base := tree(t, "repo/")
		repo := filepath.Join(base, "repo")
		run(t, repo, nil, git, "init", "-q")
		paths := randomTree(t, random, repo)
		files := map[string]string{}
		for _, dir := range []string{"", "a/", "a/b/", "foo/"} {
			if random.IntN(3) > 0 || dir == "" {
				files[dir+".gitignore"] = randomRules(random)
			}
		}
		files[".git/info/exclude"] = randomRules(random)
		for name, text := range files {
			grow(t, repo, name+"="+text)
		}

		var input bytes.Buffer
		for _, p := range paths {
			input.WriteString(p + "\x00")
		}
		out := run(t, repo, &input, git, "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin")
		byGit := map[string]bool{}
		for p := range strings.SplitSeq(string(out), "\x00") {
			byGit[p] = p != ""
		}
		ours := visible(t, repo)
		for _, p := range paths {
			left--
			if byGit[p] {
				yes++
			} else {
				no++
			}
			if byGit[p] == !ours[p] {
				continue
			}
			for name, text := range files {
				t.Logf("%s:\n%s", name, quoteLines(text))
			}
			t.Fatalf("seed %d, round %d: %q: git ignores: %v, we see: %v", seed, round, p, byGit[p], ours[p])
		}
	}
	t.Logf("%d ignored, %d not", yes, no)
}

func quoteLines(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(&b, "\t%q\n", line)
	}
	return b.String()
}

func run(t testing.TB, dir string, input *bytes.Buffer, name string, args ...string) []byte {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "LC_ALL=C")
	if input != nil {
		c.Stdin = input
	}
	out, err := c.Output()
	var exit *exec.ExitError
	if err != nil && (!assert.ErrorAs(t, err, &exit) || exit.ExitCode() != 1) {
		require.NoError(t, err, "%s", exit.Stderr)
	}
	return out
}

// visible is everything that a walk shows.
func visible(t *testing.T, base string) map[string]bool {
	s, err := open(workspace(t, base), ".", false)
	require.NoError(t, err)
	defer s.close()
	all := map[string]bool{}
	seen := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range seen {
			all[p] = true
		}
	}()
	walk(t.Context(), s, walkOptions{hidden: true}, func() visitor { return lister(seen) })
	close(seen)
	<-done
	return all
}

type lister chan<- string

func (l lister) visit(_ dir, path string, e entry) { l <- path + e.name }

var someNames = []string{"a", "b", "foo", "bar", "foobar", "a.c", "b.o", ".x", "F", "a b", "x ", "#c", "!d", "[e]", "ab", "é", "\xff", "a*", `b\c`}

func randomTree(t *testing.T, random *rand.Rand, base string) (paths []string) {
	var fill func(dir string, depth int)
	fill = func(dir string, depth int) {
		for _, name := range someNames {
			p := dir + name
			what := random.IntN(5)
			if p == "a" || p == "a/b" || p == "foo" {
				what = 2
			}
			switch what {
			case 0, 1:
				grow(t, base, p+"=")
			case 2:
				if depth == 3 {
					continue
				}
				grow(t, base, p+"/")
				fill(p+"/", depth+1)
			default:
				continue
			}
			paths = append(paths, p)
		}
	}
	fill("", 0)
	return paths
}

// randomRules makes lines of pieces that mean something in a .gitignore.
func randomRules(random *rand.Rand) string {
	pieces := append([]string{"*", "*", "**", "**", "?", "/", "/", "/", "/", "[ab]", "[!a]", "[^b]", "[a-c]", "[]x]", "[a", "[[:alpha:]]", "[[:punct:]]", "[[:no:]]",
		`\`, `\*`, `\#`, `\!`, `\ `, "!", "#", " ", "\t", "\r", "o", "-", "[\\]]", "**/", "/**", "/**/", "a/b", "*.c"}, someNames...)
	var b strings.Builder
	if random.IntN(20) == 0 {
		b.WriteString("\ufeff")
	}
	for range random.IntN(5) {
		for range 1 + random.IntN(4) {
			if random.IntN(3) == 0 {
				b.WriteString(someNames[random.IntN(len(someNames))])
			} else {
				b.WriteString(pieces[random.IntN(len(pieces))])
			}
		}
		if random.IntN(4) == 0 {
			b.WriteString("/")
		}
		if random.IntN(10) > 0 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// What only one clone ignores holds in its linked worktrees, too, as long as it is in the workspace.
func TestExcludeOfAWorktree(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not there")
	}
	for _, outside := range []bool{false, true} {
		base := tree(t, "ws/x=")
		repo, work := filepath.Join(base, "ws", "repo"), filepath.Join(base, "ws", "work")
		if outside {
			repo = filepath.Join(base, "repo")
		}
		run(t, base, nil, git, "init", "-q", repo)
		run(t, repo, nil, git, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m")
		run(t, repo, nil, git, "worktree", "add", "-q", work)
		grow(t, repo, ".git/info/exclude=secret*\n")
		grow(t, work, "secret=word", "sub/secret.txt=word", "plain=word")
		w := workspace(t, filepath.Join(base, "ws"))
		want := "work/plain:1:1:word"
		if outside { // nothing outside is read
			want = "work/plain:1:1:word work/secret:1:1:word work/sub/secret.txt:1:1:word"
		}
		assert.Equal(t, want, shown(grep(t, w, GrepOptions{Pattern: "word", Path: "work"})))
		if !outside {
			assert.Equal(t, want, shown(grep(t, w, GrepOptions{Pattern: "word"})))
			assert.Empty(t, grep(t, w, GrepOptions{Pattern: "word", Path: "work/sub"}).Files)
		}
	}
	// A submodule's .git is a file with a relative path.
	w := workspace(t, tree(t, ".git/modules/m/info/exclude=*.log\n", "m/.git=gitdir: ../.git/modules/m\n", "m/a.log=word", "m/b=word",
		"n/.git=gitdir: ../../../etc\n", "n/b=word", "o/.git=gitdir: ", "o/b=word", "p/.git=nothing", "p/b=word"))
	assert.Equal(t, "m/b:1:1:word n/b:1:1:word o/b:1:1:word p/b:1:1:word", shown(grep(t, w, GrepOptions{Pattern: "word"})))
}
