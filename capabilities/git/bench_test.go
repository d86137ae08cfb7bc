//go:build unix

package git

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

// What it costs to look through a repository is to be seen beside what git itself takes.
func BenchmarkLargeRepositories(b *testing.B) {
	for name, grow := range map[string]func(w *bench){
		"small": func(*bench) {},
		"100,000 loose objects": func(w *bench) {
			for i := range 100_000 {
				sum := fmt.Sprintf("%x", sha1.Sum(fmt.Append(nil, i)))
				w.raw(".git/objects/"+sum[:2]+"/"+sum[2:], "")
			}
		},
		"10,000 branches": func(w *bench) {
			head, err := os.ReadFile(filepath.Join(w.top, ".git/refs/heads/main"))
			require.NoError(b, err)
			for i := range 10_000 {
				w.raw(fmt.Sprintf(".git/refs/heads/d%d/b%d", i%100, i), string(head))
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			w := newPlace(b)
			w.init()
			w.commit("a.txt", "a\n")
			grow(w)
			w.start(Options{})
			for b.Loop() {
				if a := w.call("status"); a.Outcome != protocol.OutcomeSucceeded {
					b.Fatal(a.text)
				}
			}
		})
	}
}

// raw writes a file and asks for little.
func (b *bench) raw(name, content string) {
	path := filepath.Join(b.top, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(b.t, os.WriteFile(path, []byte(content), 0o644))
	}
}
