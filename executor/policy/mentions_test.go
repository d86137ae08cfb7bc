package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is passed over without being taken apart would not have been it.
func TestMentionsPassesOverNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"rm", "RM", "Rm.EXE", "rm.exe.exe", "a", `\`, "/", " ", ";", "=", "\xff", "\xe2", "é", "K", "K", ".", ".exe", "mk", "İ"}
	found := 0
	for range 20_000 {
		var text, name string
		for range random.IntN(6) {
			text += pieces[random.IntN(len(pieces))]
		}
		for range 1 + random.IntN(2) {
			name += pieces[random.IntN(len(pieces))]
		}
		want := no
		for _, part := range strings.FieldsFunc(text, separates) {
			if program(part) == program(name) {
				want = maybe
				found++
				break
			}
		}
		got, _ := simple{{text: "some-runner", known: true}, {text: text, known: true}}.mentions(Words{name})
		require.Equal(t, want, got, "%q in %q", name, text)
	}
	require.Greater(t, found, 500)
}
