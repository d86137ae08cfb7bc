package redact

import (
	"fmt"
	"strings"
	"testing"
)

// The speed of a text in which nothing is found, as most are.
func BenchmarkStream(b *testing.B) {
	line := "2026-01-02T15:04:05Z  INFO  building package github.com/some/thing (cached) 0.003s ok\n"
	piece := []byte(strings.Repeat(line, 32<<10/len(line)))
	for _, n := range []int{0, 1, 10, 50} {
		var secrets []string
		for i := range n {
			secrets = append(secrets, fmt.Sprintf("ghp_%032x", (i+1)*0x5bd1e995*7919))
		}
		for _, short := range []bool{false, true} {
			if short {
				secrets = append(secrets, "p@ssw0rd")
			}
			r := New(secrets...)
			b.Run(fmt.Sprintf("secrets=%d", len(secrets)), func(b *testing.B) {
				s := r.NewStream(0)
				b.SetBytes(int64(len(piece)))
				for b.Loop() {
					s.Mask(piece)
				}
			})
		}
	}
}
