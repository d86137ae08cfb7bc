package capabilities

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is found is what encoding/json makes U+FFFD of.
func TestHalfCharacters(t *testing.T) {
	pieces := []string{`\ud83d`, `\uDE00`, `\udbff`, `\uDC00`, `\\`, `\"`, `\n`, `\u0041`, `\uffff`, "u", "d800", "é", "text"}
	for range 20_000 {
		var b strings.Builder
		for range rand.IntN(8) {
			b.WriteString(pieces[rand.IntN(len(pieces))])
		}
		var text string
		require.NoError(t, json.Unmarshal([]byte(`"`+b.String()+`"`), &text))
		half := halfCharacter([]byte(b.String()))
		require.Equal(t, strings.ContainsRune(text, '\uFFFD'), half != nil, b.String())
		if half != nil {
			require.Len(t, half, 6)
		}
	}
}

func BenchmarkHalfCharacters(b *testing.B) {
	for name, line := range map[string]string{"text": "one line of a text as programs are, not too short\\n", "escapes": `\u0434\u0430`} {
		raw := []byte(strings.Repeat(line, 1<<20/len(line)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				halfCharacter(raw)
			}
		})
	}
}
