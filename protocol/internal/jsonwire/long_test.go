package jsonwire

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is in a long string, and where, makes no difference to what is valid.
func TestLongStrings(t *testing.T) {
	for _, odd := range []string{"", `\n`, `\"`, `\\`, `\`, "\n", "\x00", "\x1f", "\x7f", "é", `"`, `","b":"`} {
		for _, before := range []int{0, 1, longString - 1, longString, longString + 1, 3 * longString} {
			for _, behind := range []int{0, 1, 2 * longString} {
				text := []byte(`{"a":"` + strings.Repeat("x", before) + odd + strings.Repeat("y", behind) + `"}`)
				end := SkipValue(text, 0)
				if json.Valid(text) {
					require.Equal(t, len(text), end, "%q", odd)
				} else {
					require.NotEqual(t, len(text), end, "%q", odd)
				}
			}
		}
	}
}

// A long string of pieces, some long and some short, is what it is for encoding/json.
func TestStringsOfLongPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := []string{`\n`, `\"`, `\\`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\/`, "é", "\x7f", "", "\xff"}
	bad := []string{`\x`, `\u12g4`, "\n", `"`, `\`}
	for range 5000 {
		text := []byte(`"` + strings.Repeat("x", r.IntN(2)*longString))
		for range r.IntN(20) {
			text = append(text, strings.Repeat("y", []int{0, 1, shortPiece, 100, longString}[r.IntN(5)])...)
			if r.IntN(200) == 0 {
				text = append(text, bad[r.IntN(len(bad))]...)
			}
			text = append(text, odd[r.IntN(len(odd))]...)
		}
		text = append(text, `"`...)
		if r.IntN(20) == 0 {
			text = text[:r.IntN(len(text))+1]
		}
		want, got := "", ""
		if !json.Valid(text) {
			require.NotEqual(t, len(text), SkipValue(text, 0), "%q", text)
			continue
		}
		require.Equal(t, len(text), SkipValue(text, 0), "%q", text)
		require.NoError(t, json.Unmarshal(text, &want))
		require.NoError(t, Unmarshal(text, &got, false))
		require.Equal(t, want, got)
		require.Equal(t, want, string(AppendUnquoted(nil, text[1:len(text)-1])))
	}
}

// The memory that a []byte has is used again, and only as far as it reaches.
func TestUnmarshalIntoMemory(t *testing.T) {
	memory := make([]byte, 0, 8)
	v := struct{ Data []byte }{memory}
	require.NoError(t, Unmarshal([]byte(`{"Data":"aGVsbG8="}`), &v, false))
	require.Equal(t, "hello", string(v.Data))
	require.Same(t, &memory[:1][0], &v.Data[0])
	require.NoError(t, Unmarshal([]byte(`{"Data":"aGVsbG8gd29ybGQ="}`), &v, false))
	require.Equal(t, "hello world", string(v.Data))
	require.Equal(t, "hello", string(memory[:5]))
}
