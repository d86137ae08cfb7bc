package redact

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byHand masks every byte that any form of any secret covers, with or without ends of lines in it, in the most simple
// way.
func byHand(in []byte, secrets ...string) []byte {
	out := bytes.Clone(in)
	text, place := joinedByHand(in)
	for _, s := range secrets {
		for _, form := range forms(s) {
			plain, _ := joinedByHand([]byte(form))
			if len(plain) < MinLength {
				continue
			}
			for at := 0; ; at++ {
				i := bytes.Index(text[at:], plain)
				if i < 0 {
					break
				}
				at += i
				for j := range len(plain) {
					if b := text[at+j]; b != '\n' && b != '\r' {
						out[place[at+j]] = '*'
					}
				}
			}
		}
	}
	return out
}

// joinedByHand is a text without the line ends that stand alone, and where its bytes were.
func joinedByHand(in []byte) (text []byte, place []int) {
	end := func(i int) bool { return i < 0 || i >= len(in) || in[i] == '\n' || in[i] == '\r' }
	for i := range in {
		lone := in[i] == '\n' && (!end(i-1) && !end(i+1) || i > 0 && in[i-1] == '\r' && !end(i-2) && !end(i+1)) ||
			in[i] == '\r' && !end(i-1) && i+1 < len(in) && in[i+1] == '\n' && !end(i+2)
		if !lone {
			text, place = append(text, in[i]), append(place, i)
		}
	}
	return text, place
}

// through sends a text through a stream in pieces that cut says the length of.
func through(t testing.TB, s *Stream, in []byte, longest int, cut func() int) []byte {
	var out []byte
	for at := 0; at < len(in); {
		n := min(max(cut(), 1), len(in)-at)
		out = append(out, s.Mask(in[at:at+n])...)
		at += n
		require.Less(t, at-len(out), longest, "too much is held back")
	}
	return append(out, s.Flush()...)
}

// samples are secrets with much in common, and a random text with them in it, their forms and their beginnings.
func samples(size int) (secrets []string, text []byte) {
	rnd := rand.New(rand.NewPCG(1, 2))
	secrets = []string{"abababab", "ababababcabababab", "bababcab", "ghp_0123456789abcdefghij", "ghp_0123456789abcdefghij-and-more/of+it",
		"päss wörd/with\"all\\of&it", "aaaaaaaaaaaa"}
	var pieces []string
	for _, s := range secrets {
		for _, form := range forms(s) {
			pieces = append(pieces, form, form[:len(form)/2], form[:len(form)-1], form[1:])
		}
		for i := range 3 {
			pieces = append(pieces, base64.StdEncoding.EncodeToString([]byte("xyz"[:i]+s+"tail")))
		}
	}
	for len(text) < size {
		switch rnd.IntN(4) {
		case 0:
			for range rnd.IntN(200) {
				text = append(text, byte(rnd.IntN(256)))
			}
		case 1:
			for range rnd.IntN(40) {
				text = append(text, "abc"[rnd.IntN(3)])
			}
		default:
			text = append(text, pieces[rnd.IntN(len(pieces))]...)
		}
	}
	return secrets, text[:size]
}

// A random text of 1 MB, cut everywhere: the pieces say what the whole does, which is what is found by hand, and
// never is more held back than a secret without its last byte.
func TestEveryBorder(t *testing.T) {
	size := 1 << 20
	secrets, text := samples(size)
	r := New(secrets...)
	longest := 3 * r.matcher().longest // with its line ends
	want := byHand(text, secrets...)
	require.NotEqual(t, text, want)
	require.True(t, bytes.Equal(want, r.Mask(text)), "as a whole")
	rnd := rand.New(rand.NewPCG(3, 4))
	for name, cut := range map[string]func() int{
		"bytes":  func() int { return 1 },
		"twos":   func() int { return 2 },
		"sevens": func() int { return 7 },
		"pages":  func() int { return 4096 },
		"random": func() int { return 1 + rnd.IntN(100) },
		"large":  func() int { return 1 + rnd.IntN(200_000) },
	} {
		part := size
		if raceEnabled && cut() < 100 {
			part = size / 16 // it is slow, and the race detector sees nothing more in the rest
		}
		got := through(t, r.NewStream(0), text[:part], longest, cut)
		require.True(t, bytes.Equal(want[:part-longest], got[:part-longest]), name)
	}
	// Each border by itself, with as much around it as a secret can need.
	around := 2 * longest
	every := 1
	if testing.Short() || raceEnabled {
		every = 499
	}
	buf := make([]byte, 0, 2*around)
	for at := rnd.IntN(every); at <= size; at += every {
		from, to := max(0, at-around), min(size, at+around)
		s := r.NewStream(0)
		buf = append(buf[:0], s.Mask(text[from:at])...)
		buf = append(buf, s.Mask(text[at:to])...)
		buf = append(buf, s.Flush()...)
		// At the ends secrets are cut off that the whole text has.
		a, b := min(longest, at-from), max(at-from, len(buf)-longest)
		require.True(t, bytes.Equal(want[from+a:from+b], buf[a:b]), "border %d", at)
	}
}

func TestStreamHoldsBackOnlyBeginnings(t *testing.T) {
	r := New("secret-0123")
	s := r.NewStream(0)
	assert.Equal(t, "password: ", string(s.Mask([]byte("password: "))))
	assert.Equal(t, "ok ", string(s.Mask([]byte("ok secret-012"))))
	assert.Empty(t, s.Mask(nil))
	assert.Equal(t, "***********.", string(s.Mask([]byte("3."))))
	assert.Empty(t, s.Mask([]byte("secret")))
	assert.Equal(t, "secretx", string(s.Mask([]byte("x"))))
	assert.Empty(t, s.Mask([]byte("secr")))
	assert.Equal(t, "secr", string(s.Flush()))
	assert.Equal(t, "et-0123", string(s.Mask([]byte("et-0123"))), "Flush ends what was begun")
	assert.Empty(t, s.Flush())
}

// With a lead the first bytes of what may become a secret are let out, and no more of it.
func TestStreamLead(t *testing.T) {
	r := New("secret-0123", "ret-0123456")
	s := r.NewStream(3)
	var out []string
	for _, c := range "is secret-0123456 secrecy" {
		out = append(out, string(s.Mask([]byte(string(c)))))
	}
	out = append(out, string(s.Flush()))
	text := ""
	for _, o := range out {
		text += o
	}
	assert.Equal(t, "is sec*********** secrecy", text)
	assert.Equal(t, []string{"i", "s", " ", "s", "e", "c", "", ""}, out[:8])

	secrets, all := samples(1 << 14)
	r = New(secrets...)
	for _, lead := range []int{1, 2, 3, 99} {
		rnd := rand.New(rand.NewPCG(5, uint64(lead)))
		got := through(t, r.NewStream(lead), all, 3*r.matcher().longest, func() int { return 1 + rnd.IntN(9) })
		require.Len(t, got, len(all))
		want := byHand(all, secrets...)
		shown := 0 // bytes of a secret that are seen, in a row
		allowed := min(lead, 3)
		if bytes.ContainsAny(all, "\n") {
			allowed = MinLength - 1 // of a secret whose first line is short
		}
		for i := range got {
			switch {
			case got[i] == want[i]:
				shown = 0
			case got[i] == all[i]:
				shown++
				require.LessOrEqual(t, shown, allowed)
			default:
				t.Fatalf("byte %d is %q", i, got[i])
			}
		}
	}
}

// A secret that is added while a stream runs counts from the next piece on, with what is held back.
func TestStreamLearns(t *testing.T) {
	r := New("first-secret")
	s := r.NewStream(0)
	assert.Empty(t, s.Mask([]byte("first-")))
	r.Add("first-thing")
	assert.Equal(t, "*********** first-sexcret", string(s.Mask([]byte("thing first-sexcret"))))
	release := r.Hold("held-secret")
	assert.Empty(t, s.Mask([]byte("held-")))
	release()
	assert.Equal(t, "held-secret", string(s.Mask([]byte("secret"))))
}

type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriter(t *testing.T) {
	r := New("first-secret")
	var out bytes.Buffer
	w := r.NewWriter(&out)
	for _, s := range []string{"a first", "-sec", "ret b fir"} {
		n, err := w.Write([]byte(s))
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	assert.Equal(t, "a ************ b ", out.String())
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	assert.Equal(t, "a ************ b fir", out.String())

	big := bytes.Repeat([]byte("0123456789abcde\n"), 10_000)
	n, err := r.NewWriter(&failing{left: 100_000}).Write(big)
	assert.ErrorIs(t, err, errFull)
	assert.Less(t, n, len(big))
	w = r.NewWriter(&failing{})
	_, err = w.Write([]byte("first"))
	require.NoError(t, err)
	assert.ErrorIs(t, w.Flush(), errFull)
}

func FuzzStream(f *testing.F) {
	f.Add("ababcdcd", "cdcdabab", []byte("ababcdcdabab"), uint8(3), uint8(0))
	f.Add("aaaaaaaa", "aaaaaaaaaaaa", []byte("aaaaaaaaaaaaaaaaaaaaa"), uint8(1), uint8(2))
	f.Add("pass\nword%20/with", "\xff\xfe\x80abcdefg", []byte("cGFzcwp3b3JkJTIwL3dpdGg="), uint8(2), uint8(0))
	f.Fuzz(func(t *testing.T, a, b string, text []byte, step, lead uint8) {
		var good []string
		for _, s := range []string{a, b} {
			if s = strings.TrimSpace(s); len(s) >= MinLength {
				good = append(good, s)
			}
		}
		r := New(a, b)
		want := byHand(text, good...)
		require.Equal(t, want, append([]byte{}, r.Mask(text)...))
		m := r.matcher()
		longest := 1
		if m != nil {
			longest = 3 * m.longest
		}
		got := through(t, r.NewStream(0), text, max(longest, 1), func() int { return int(step) })
		require.Equal(t, want, append([]byte{}, got...))
		require.Len(t, through(t, r.NewStream(int(lead)), text, max(longest, 1), func() int { return int(step) }), len(text))
	})
}
