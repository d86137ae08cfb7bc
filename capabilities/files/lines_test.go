package files

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The scanner finds what splitting the whole text finds, in pieces of any size.
func TestScanAgainstSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"\n", "\n", "a", "é", "─", "😀", "bcd", "\r\n", "\x00", "\xff"})).Draw(t, "text"), "")
		w := window{
			first: rapid.Int64Range(1, 12).Draw(t, "first"),
			limit: rapid.Int64Range(1, 12).Draw(t, "limit"),
			chars: rapid.IntRange(0, 6).Draw(t, "chars"),
			bytes: rapid.IntRange(16, 80).Draw(t, "bytes"),
		}
		var r io.Reader = strings.NewReader(text)
		switch rapid.IntRange(0, 2).Draw(t, "reader") {
		case 0:
			r = iotest.OneByteReader(r)
		case 1:
			r = iotest.DataErrReader(r)
		}
		var shown []line
		got, err := scan(r, w, func(number int64, l line) {
			assert.Equal(t, w.first+int64(len(shown)), number)
			l.text = bytes.Clone(l.text)
			assert.Equal(t, cleanSize(l.text) == len(l.text) && plain(l.text), l.plain)
			shown = append(shown, l)
		})
		require.NoError(t, err)

		all := strings.SplitAfter(text, "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		assert.EqualValues(t, len(all), got.total)
		assert.EqualValues(t, strings.Count(text, "\x00"), got.nuls)
		assert.Equal(t, text != "" && !strings.HasSuffix(text, "\n"), got.unending)
		used := 0
		for i, l := range shown {
			whole := all[int(w.first)-1+i]
			line := strings.TrimSuffix(whole, "\n")
			assert.True(t, strings.HasPrefix(line, string(l.text)))
			assert.Equal(t, len(l.text) < len(line), l.cut())
			assert.Equal(t, line != whole, l.ended)
			if w.chars > 0 {
				assert.LessOrEqual(t, utf8.RuneCount(l.text), w.chars)
			}
			if utf8.ValidString(line) {
				assert.True(t, utf8.Valid(l.text), "cut in a character")
				if l.cut() {
					assert.EqualValues(t, utf8.RuneCountInString(line), l.chars)
				}
				if w.chars > 0 && l.cut() && i > 0 {
					assert.Equal(t, w.chars, utf8.RuneCount(l.text))
				}
			}
			used += cleanSize(l.text) + numberWidth(w.first+int64(i))
		}
		assert.LessOrEqual(t, used, w.bytes)
		wanted := min(max(int64(len(all))-w.first+1, 0), w.limit)
		if !got.full {
			assert.EqualValues(t, wanted, len(shown))
		} else {
			assert.Less(t, int64(len(shown)), wanted)
			assert.NotEmpty(t, shown, "there is always progress")
		}
	})
}

// Many lines at once look like each of them for itself.
func TestManyLinesAtOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for round := range full(200, 15) {
		var text bytes.Buffer
		for range 2000 {
			text.WriteString(strings.Repeat("xé", random.IntN(30)))
			if random.IntN(4000) == 0 {
				text.WriteString([]string{"\r", "\x00", "\xff"}[random.IntN(3)])
			}
			text.WriteByte('\n')
		}
		w := window{first: 1 + random.Int64N(500), limit: 1 + random.Int64N(3000), bytes: 1 + random.IntN(2*text.Len())}
		skipped := []int64{0, 999_000, 99_999_000}[round%3]
		w.first += skipped
		look := func(all bool) (lines, *page) {
			p := &page{}
			s := newScanner(w, 0, skipped, p.add)
			if all {
				s.showAll = p.addAll
			}
			for rest := text.Bytes(); len(rest) > 0; {
				n := min(len(rest), 40_000)
				s.add(rest[:n])
				rest = rest[n:]
			}
			return s.end(), p
		}
		each, eachPage := look(false)
		all, allPage := look(true)
		require.Equal(t, each, all)
		require.Equal(t, eachPage.text.String(), allPage.text.String())
		require.Equal(t, eachPage.content.String(), allPage.content.String())
		require.Equal(t, eachPage.notes, allPage.notes)
	}
}

func TestScanPassesErrorsOn(t *testing.T) {
	_, err := scan(iotest.ErrReader(io.ErrUnexpectedEOF), window{first: 1, limit: math.MaxInt64 / 2, bytes: 100}, func(int64, line) {})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		assert.Equal(t, want, count(n))
	}
	assert.Equal(t, "1 line", plural(1, "line"))
	assert.Equal(t, "2,000 lines", plural(2000, "line"))
}
