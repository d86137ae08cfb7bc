package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wrapped is a text in lines of so many bytes.
func wrapped(text string, width int, end string) string {
	var b strings.Builder
	for i := 0; i < len(text); i += width {
		b.WriteString(text[i:min(i+width, len(text))])
		b.WriteString(end)
	}
	return b.String()
}

// A secret that is broken over lines is found, as xxd -p, base64 and fold break it, in pieces of any length too.
func TestBrokenOverLines(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ0123456789/more+of-it"
	r := New(secret)
	for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("xy" + secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
		for _, end := range []string{"\n", "\r\n"} {
			for width := 1; width < 80; width++ {
				text := "before\n" + wrapped(form, width, end) + "after\n"
				masked := string(r.Mask([]byte(text)))
				require.Len(t, masked, len(text))
				require.True(t, strings.HasPrefix(masked, "before\n") && strings.HasSuffix(masked, "after\n"), masked)
				left := strings.NewReplacer("*", "", "\n", "", "\r", "", "before", "", "after", "").Replace(masked)
				require.LessOrEqual(t, len(left), 8, "%d: %q", width, masked) // what base64 shares with its neighbours
				require.Equal(t, strings.Count(text, end), strings.Count(masked, end), "lines stay lines")
				for _, step := range []int{1, 5, 61, 1000} {
					got := through(t, r.NewStream(0), []byte(text), 3*r.matcher().longest, func() int { return step })
					shows := 0
					for i := range got {
						if got[i] != masked[i] {
							require.Equal(t, text[i], got[i])
							shows++
						}
					}
					require.Less(t, shows, MinLength, "%d %d: %q", width, step, got)
				}
				out := r.String(text)
				require.Contains(t, out, "[redacted]")
			}
		}
	}
}

// What comes line by line is not late for letters that a secret begins with, and several line ends in a row are no
// part of one, so that what is held back is bounded.
func TestLinesAreNotHeldBack(t *testing.T) {
	r := New("secret-0123456789")
	s := r.NewStream(0)
	assert.Equal(t, "the sec\n", string(s.Mask([]byte("the sec\n"))))
	assert.Equal(t, "\n", string(s.Mask([]byte("\n"))))
	assert.Equal(t, "ret-0123456789\n", string(s.Mask([]byte("ret-0123456789\n"))))
	assert.Equal(t, "sec\n", string(s.Mask([]byte("sec\n"))))
	assert.Equal(t, "", string(s.Mask([]byte("ret-012"))))
	assert.Equal(t, "", string(s.Mask([]byte("\n"))), "eight bytes of it are there")
	assert.Equal(t, "*******\n*******.\n", string(s.Mask([]byte("3456789.\n"))))
	assert.Equal(t, "", string(s.Mask([]byte("secret-0123\n"))))
	flood := strings.Repeat("\n", 1<<20)
	assert.Equal(t, "secret-0123\n"+flood, string(s.Mask([]byte(flood))))
	assert.Empty(t, s.Flush())
}

// It is undone exactly.
func TestJoin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 20_000 {
		text := make([]byte, rnd.IntN(20))
		for i := range text {
			text[i] = "ab\n\r"[rnd.IntN(4)]
		}
		want, place := joinedByHand(text)
		var j joined
		j.join(text, false)
		require.True(t, bytes.Equal(want, j.text), "%q: %q %q", text, want, j.text)
		for i := range want {
			require.Equal(t, place[i], j.raw(i), "%q %d", text, i)
		}
		require.Equal(t, len(text), j.raw(len(want)))
	}
}
