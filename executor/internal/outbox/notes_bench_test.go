package outbox

import (
	"fmt"
	"testing"
)

// What a note costs, which is what it adds to the start of a process.
func BenchmarkNote(b *testing.B) {
	box := openIn(b, b.TempDir())
	value := make([]byte, 150)
	n := 0
	for b.Loop() {
		n++
		box.Note("s", fmt.Sprint(n%1000), value)
	}
	if err := box.Close(); err != nil {
		b.Fatal(err)
	}
}
