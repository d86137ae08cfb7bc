package search

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkAgainstTools searches 50,000 files of Go's own tree and of the module cache,
// beside ripgrep and fd; what has no literal also beside the standard library's regexp on
// every line. The runs alternate; the medians of the ratios of the times are printed, ours to
// theirs. The tools' times have the start of their process in it, as a tool that runs them would.
// SEARCH_CORPUS is a tree that is there already, with such a part as 0/go/src/net.
// Goals: at most 1.3 for literals, literals in patterns and ignored case, 2.2 for alternatives,
// 8 and 0.2 to regexp for the rest, 0.5 for 1,000 files, and 0.8 for glob.
func BenchmarkAgainstTools(b *testing.B) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("rg is not there")
	}
	base := copies(b, 50_000)
	w := workspace(b, base)
	for _, c := range []struct {
		name, pattern, path string
		fold, library       bool
	}{
		{"literal", "unmarshalText", ".", false, false},
		{"common", "return", ".", false, false},
		{"in-regexp", `func \w+Error\(`, ".", false, false},
		{"fold", "sourcefile", ".", true, false},
		{"alternatives", "Unmarshal|deadline|goroutine|zstd", ".", false, false},
		{"class", `[a-z]+_[0-9]+[A-Z]`, ".", false, true},
		{"words", `^\s*[A-Z]\w+[0-9]\s+=`, ".", false, true},
		{"word", `\bdeadline\b`, ".", false, false},
		{"word-class", `\b[A-Z]\w+Error\b`, ".", false, true},
		{"small", `func \w+Error\(`, "0/go/src/net", false, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			args := []string{"--no-config", "--no-require-git", "--no-ignore-global", "--no-messages", "-c", "-e", c.pattern, c.path}
			if c.fold {
				args = append(args, "-i")
			}
			compared(b, "rg", 5, func() {
				_, err := Grep(b.Context(), w, GrepOptions{Pattern: c.pattern, IgnoreCase: c.fold, Path: c.path, Limit: 100})
				require.NoError(b, err)
			}, func() { tool(b, base, rg, args...) })
			if c.library {
				compared(b, "regexp", 1, func() {
					_, err := Grep(b.Context(), w, GrepOptions{Pattern: c.pattern, Limit: 100})
					require.NoError(b, err)
				}, func() { byRegexp(b, base, c.pattern) })
			}
		})
	}
	fd, err := exec.LookPath("fdfind")
	if err != nil {
		fd, err = exec.LookPath("fd")
	}
	if err != nil {
		b.Log("fd is not there")
		return
	}
	b.Run("glob", func(b *testing.B) {
		compared(b, "fd", 5, func() {
			_, err := Glob(b.Context(), w, GlobOptions{Pattern: "**/*_test.go", Limit: 1000})
			require.NoError(b, err)
		}, func() { tool(b, base, fd, "--no-global-ignore-file", "-g", "*_test.go") })
	})
}

// compared prints the median of the ratios of two times, and our own.
func compared(b *testing.B, name string, rounds int, ours, theirs func()) {
	if b.N > 1 {
		return
	}
	b.ReportMetric(0, "ns/op")
	took := func(f func()) float64 {
		began := time.Now()
		f()
		return time.Since(began).Seconds()
	}
	ours()
	theirs()
	var ratios, times []float64
	for range rounds {
		t, o := took(theirs), took(ours)
		ratios, times = append(ratios, o/t), append(times, o*1000)
	}
	slices.Sort(ratios)
	slices.Sort(times)
	b.ReportMetric(ratios[rounds/2], "to-"+name)
	b.ReportMetric(times[rounds/2], "ms-beside-"+name)
}

func tool(b *testing.B, dir, name string, args ...string) {
	c := exec.Command(name, args...)
	c.Dir = dir
	require.NoError(b, c.Run())
}

// byRegexp is a search as a first version would have it: each file whole, each line
// through the standard library.
func byRegexp(b *testing.B, dir, pattern string) {
	re := regexp.MustCompile(pattern)
	paths := make(chan string)
	done := make(chan struct{})
	n := runtime.GOMAXPROCS(0)
	for range n {
		go func() {
			defer func() { done <- struct{}{} }()
			for path := range paths {
				text, err := os.ReadFile(path)
				require.NoError(b, err)
				if bytes.IndexByte(text, 0) >= 0 {
					continue // binary: we leave it out, too
				}
				for line := range strings.Lines(string(text)) {
					re.MatchString(line)
				}
			}
		}()
	}
	require.NoError(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths <- path
		}
		return err
	}))
	close(paths)
	for range n {
		<-done
	}
}

// copies makes a tree of at least n files of what is there on every machine with Go.
func copies(b *testing.B, n int) string {
	if base := os.Getenv("SEARCH_CORPUS"); base != "" {
		return base // one that is there already
	}
	base := tree(b)
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	require.NoError(b, err)
	sources := strings.Fields(string(out))
	count := 0
	for round := 0; count < n; round++ {
		for i, source := range sources {
			to := filepath.Join(base, fmt.Sprint(round), []string{"go", "mod"}[i])
			require.NoError(b, filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				rel, err := filepath.Rel(source, path)
				if err != nil {
					return err
				}
				target := filepath.Join(to, rel)
				switch {
				case d.IsDir() && rel == filepath.Join("cache", "download"):
					return filepath.SkipDir
				case d.IsDir():
					return os.MkdirAll(target, 0o755)
				case !d.Type().IsRegular():
					return nil
				}
				count++
				if os.Link(path, target) == nil {
					return nil
				}
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				return os.WriteFile(target, text, 0o644)
			}))
		}
	}
	return base
}
