package jsonwire

import (
	"encoding/json"
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
