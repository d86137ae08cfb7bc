package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clean sends the pieces through a cleaner of their own.
func clean(pieces ...string) (string, *Cleaner) {
	var out bytes.Buffer
	c := NewCleaner(&out)
	for _, p := range pieces {
		_, _ = c.Write([]byte(p))
	}
	_ = c.Close()
	return out.String(), c
}

func TestClean(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"plain":                   {"a\nb\tc\n", "a\nb\tc\n"},
		"no final newline":        {"a\nb", "a\nb"},
		"colours":                 {"\x1b[31mred\x1b[0m \x1b[1;38;5;9mbold\x1b[m\n", "red bold\n"},
		"carriage return":         {"10%\r50%\r100%\n", "100%\n"},
		"shorter redraw":          {"abcdef\rxy\n", "xycdef\n"},
		"erase to the end":        {"abcdef\rxy\x1b[K\n", "xy\n"},
		"erase the line":          {"abcdef\x1b[2K\rxy\n", "xy\n"},
		"erase the beginning":     {"abc\x1b[2D\x1b[1Kx\n", " xc\n"},
		"dos line ends":           {"a\r\nb\r\n", "a\nb\n"},
		"backspace":               {"abc\b\bX\n", "aXc\n"},
		"spinner":                 {"|\b/\b-\b\\\bdone\n", "done\n"},
		"cursor column":           {"ab\x1b[5Gx\x1b[1Gy\n", "yb  x\n"},
		"cursor right":            {"a\x1b[3Cb\n", "a   b\n"},
		"title":                   {"\x1b]0;my title\x07text\n", "text\n"},
		"link":                    {"\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\\n", "text\n"},
		"device control":          {"\x1bPq#0\x1b\\text\n", "text\n"},
		"charset":                 {"\x1b(Btext\x1b=\x1b>\n", "text\n"},
		"private mode":            {"\x1b[?25lx\x1b[?25h\n", "x\n"},
		"8-bit sequence":          {"\u009b31mred\n", "red\n"},
		"screen":                  {"\x1b[2J\x1b[H\x1b[1Atext\n", "text\n"},
		"open string":             {"\x1b]0;never ends\nVERDICT\n", "\nVERDICT\n"},
		"broken sequence":         {"\x1b[31\nVERDICT\n", "\nVERDICT\n"},
		"lone escape":             {"a\x1b\nb\n", "a\nb\n"},
		"bell and others":         {"a\x07\x0e\x0f\x7f\u0085b\n", "ab\n"},
		"wide characters":         {"日本\r漢\n", "漢本\n"},
		"replacement as it came":  {"a\ufffdb\n", "a\ufffdb\n"},
		"case 28, invalid":        {"\xff\xfe\x80abc\n", "\ufffd\ufffd\ufffdabc\n"},
		"case 26, NUL":            {"h\x00e\x00l\x00l\x00o\x00", "hello"},
		"case 26, UTF-16":         {"\xff\xfeh\x00i\x00\n\x00", "\ufffd\ufffdhi\n"},
		"truncated character":     {"a\xe2\x80", "a\ufffd\ufffd"},
		"truncated, then another": {"\xe2\x80\xe2\x80\x94\n", "\ufffd\ufffd—\n"},
		"surrogate":               {"\xed\xa0\x80\n", "\ufffd\ufffd\ufffd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := clean(test.in)
			assert.Equal(t, test.want, got)
			// However the bytes are cut into reads (case 24).
			got, _ = clean(strings.Split(test.in, "")...)
			assert.Equal(t, test.want, got, "byte by byte")
			for i := range len(test.in) {
				got, _ = clean(test.in[:i], test.in[i:])
				assert.Equal(t, test.want, got, "cut at %d", i)
			}
		})
	}
}

func TestDamageIsCounted(t *testing.T) {
	_, c := clean("\xff\xfeh\x00i\x00\n\x00")
	assert.Equal(t, int64(2), c.Invalid)
	assert.Equal(t, int64(3), c.NULs)
	_, c = clean("fine \ufffd\n")
	assert.Zero(t, c.Invalid+c.NULs)
}

// Any bytes in any pieces: valid UTF-8 without NUL comes out, the same as in one piece.
func TestCleanAnything(t *testing.T) {
	alphabet := []byte("ab\n\r\b\x1b[]0;1KmCDG\\\x07\x00\xe2\x80\x94\xff\x9b\xc2P(?")
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.SampledFrom(alphabet)).Draw(t, "text"))
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		got, one := clean(text)
		again, two := clean(text[:cut], text[cut:])
		if got != again || one.Invalid != two.Invalid || one.NULs != two.NULs {
			t.Fatalf("one piece %q, two %q", got, again)
		}
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || strings.ContainsRune(got, 0x1b) {
			t.Fatalf("%q", got)
		}
	})
}

// A line without end needs bounded memory and loses nothing.
func TestEndlessLine(t *testing.T) {
	var out bytes.Buffer
	c := NewCleaner(&out)
	chunk := bytes.Repeat([]byte("0123456789─"), 1000)
	for range 100 {
		_, _ = c.Write(chunk)
	}
	assert.LessOrEqual(t, len(c.line), maxLine)
	require.NoError(t, c.Close())
	assert.Equal(t, strings.Repeat(string(chunk), 100), out.String())
	got, _ := clean("\x1b[999999999999Cx\n")
	assert.LessOrEqual(t, len(got), maxLine+1)
}

func TestHeadTail(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, 250, 100_000} {
		for _, chunk := range []int{1, 7, 64, 1000} {
			var text strings.Builder
			for i := 0; text.Len() < size; i++ {
				fmt.Fprintf(&text, "%04d ", i)
			}
			whole := text.String()[:size]
			h := NewHeadTail(100)
			for rest := whole; rest != ""; {
				n := min(chunk, len(rest))
				_, _ = h.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			for _, limit := range []int{100, 1000, 60, 10} {
				v := h.View(limit)
				assert.Equal(t, int64(size), v.Total)
				assert.Equal(t, int64(size), int64(len(v.Head)+len(v.Tail))+v.Omitted)
				assert.LessOrEqual(t, len(v.Head)+len(v.Tail), min(limit, 100))
				assert.True(t, strings.HasPrefix(whole, v.Head) && strings.HasSuffix(whole, v.Tail))
				assert.Equal(t, size > min(limit, 100), v.Omitted > 0)
				if v.Omitted == 0 {
					assert.Equal(t, whole, v.Text("note"))
				}
			}
		}
	}
}

// Cuts fall between characters and between lines, and the last line is there.
func TestCuts(t *testing.T) {
	h := NewHeadTail(101)
	_, _ = h.Write([]byte(strings.Repeat("─", 1000) + "end"))
	v := h.View(101)
	assert.True(t, utf8.ValidString(v.Head) && utf8.ValidString(v.Tail))
	assert.True(t, strings.HasSuffix(v.Tail, "─end"))
	assert.Equal(t, int64(3003), int64(len(v.Head)+len(v.Tail))+v.Omitted)

	h = NewHeadTail(1000)
	for i := range 1000 {
		fmt.Fprintf(h, "line %d\n", i)
	}
	fmt.Fprint(h, "FAILED")
	v = h.View(1000)
	assert.True(t, strings.HasSuffix(v.Head, "\n"))
	assert.True(t, strings.HasPrefix(v.Tail, "line "))
	text := v.Text("[note]")
	assert.Contains(t, text, "\n[note]\nline ")
	assert.True(t, strings.HasSuffix(text, "line 999\nFAILED"))
}

// Case 20: the verdict at the end survives, and what is missing is counted exactly.
func TestVerdictSurvives(t *testing.T) {
	var whole strings.Builder
	for i := range 200_000 {
		fmt.Fprintln(&whole, i+1)
	}
	whole.WriteString("FAILED t_x - 3 failed, 10 passed\n")
	o := NewOutput(16<<10, nil)
	_, _ = o.Write([]byte(whole.String()))
	require.NoError(t, o.Close())
	v := o.View(16 << 10)
	assert.True(t, strings.HasPrefix(v.Head, "1\n2\n"))
	assert.True(t, strings.HasSuffix(v.Tail, "FAILED t_x - 3 failed, 10 passed\n"))
	assert.Equal(t, int64(whole.Len()-len(v.Head)-len(v.Tail)), v.Omitted)
}

// Case 29: redraws are collapsed before the limit is applied, and the raw bytes are kept.
func TestProgressBar(t *testing.T) {
	var file bytes.Buffer
	spill := NewSpill(1000, 1<<30, func() (io.Writer, error) { return &file, nil })
	o := NewOutput(1000, spill)
	for i := range 20_001 {
		fmt.Fprintf(o, "\rDownloading %5.1f%%", float64(i)/200)
	}
	fmt.Fprint(o, "\nVERDICT\n")
	require.NoError(t, o.Close())
	v := o.View(1000)
	assert.Zero(t, v.Omitted)
	assert.Equal(t, "Downloading 100.0%\nVERDICT\n", v.Text(""))
	assert.Equal(t, o.Raw(), int64(file.Len()))
	assert.Equal(t, SpillState{Opened: true, Written: o.Raw()}, spill.State())
}

func TestSpill(t *testing.T) {
	opened := 0
	var file bytes.Buffer
	s := NewSpill(10, 25, func() (io.Writer, error) { opened++; return &file, nil })
	_, _ = s.Write([]byte("0123456789"))
	assert.Equal(t, SpillState{}, s.State(), "the threshold itself needs no file")
	_, _ = s.Write([]byte("abcdefghij"))
	_, _ = s.Write([]byte("ABCDEFGHIJ"))
	_, _ = s.Write([]byte("more"))
	assert.Equal(t, "0123456789abcdefghijABCDE", file.String())
	assert.Equal(t, SpillState{Opened: true, Written: 25, Lost: 9}, s.State())
	assert.Equal(t, 1, opened)

	failed := NewSpill(1, 100, func() (io.Writer, error) { return nil, errors.New("disk full") })
	_, _ = failed.Write([]byte("abc"))
	_, _ = failed.Write([]byte("def"))
	state := failed.State()
	assert.ErrorContains(t, state.Err, "disk full")
	assert.Equal(t, int64(6), state.Lost)
	assert.False(t, state.Opened)

	short := NewSpill(0, 100, func() (io.Writer, error) { return shortWriter{}, nil })
	_, _ = short.Write([]byte("abc"))
	_, _ = short.Write([]byte("def"))
	state = short.State()
	assert.ErrorIs(t, state.Err, io.ErrShortWrite)
	assert.Equal(t, int64(1), state.Written)
	assert.Equal(t, int64(5), state.Lost)
}

type shortWriter struct{}

func (shortWriter) Write([]byte) (int, error) { return 1, io.ErrShortWrite }

func BenchmarkOutput(b *testing.B) {
	for name, text := range map[string]string{
		"plain":  strings.Repeat("a line of ordinary output of a compiler\n", 1600),
		"colour": strings.Repeat("\x1b[32mok\x1b[0m a line of ordinary output\n", 1600),
		"long":   strings.Repeat("one line without end ", 3000),
	} {
		b.Run(name, func(b *testing.B) {
			o := NewOutput(32<<10, nil)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = o.Write([]byte(text))
			}
		})
	}
}
