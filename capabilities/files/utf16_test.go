package files

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"

	"github.com/agent-executor/executor/protocol"
)

// What is damaged is edited by no byte, however short the text that is looked for, and
// read says so.
func TestEditDamagedUTF16(t *testing.T) {
	wide := func(order unicode.Endianness, text string) string {
		s, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(text)
		require.NoError(t, err)
		return s
	}
	little, big := wide(unicode.LittleEndian, "a;b;c\r\n"), wide(unicode.BigEndian, "a;b;c\r\n")
	for name, c := range map[string]struct{ content, said string }{
		"first half at the end":        {little + "\x3d\xd8", "utf-16le with characters that are damaged"},
		"second half at the start":     {little[:2] + "\x00\xdc" + little[2:], "utf-16le with characters that are damaged"},
		"two first halves":             {big + "\xd8\x3d\xd8\x3d\xdc\x00", "utf-16be with characters that are damaged"},
		"odd":                          {little + ";", "utf-16le with characters that are damaged"},
		"odd, high bytes first":        {big + "\x00", "utf-16be with characters that are damaged"},
		"text with a mark not its own": {"\xff\xfea;b;c\r\n", "utf-16le with characters that are damaged"},
		"UTF-32":                       {"\xff\xfe\x00\x00a\x00\x00\x00;\x00\x00\x00", "utf-32le and cannot be edited as text"},
	} {
		b := newBench(t) // one that has read none of them
		b.put("f", c.content)
		for _, old := range []string{";", "a;", "\n", "\x00", "none"} {
			for _, unsafe := range []bool{false, true} {
				in := edit("f", old, ",,")
				in["replace_all"], in["unsafe_overwrite"] = true, unsafe
				said := b.refused(protocol.ReasonNoMatch, "edit", in)
				assert.Contains(t, said, "the file is "+c.said, name)
				assert.Contains(t, said, "cannot be edited as text; write makes it UTF-8, or use a command", name)
				one := obj{"path": "f", "old_string": old, "new_string": ",,", "replace_all": true}
				assert.Contains(t, b.refused(protocol.ReasonNoMatch, "multi_edit", obj{"edits": []obj{one}, "unsafe_overwrite": unsafe}), c.said, name)
			}
		}
		assert.Equal(t, c.content, b.get("f"), name)
		if name != "UTF-32" {
			text, _ := b.read(obj{"path": "f", "limit": 1})
			assert.Contains(t, text, "[the file is "+c.said+", and cannot be edited; write would make it UTF-8]", name)
			assert.NotContains(t, text, "edit keeps it so", name)
		}
	}
	b := newBench(t)
	// U+FFFD that is in the text is no damage, and the mark alone is a text.
	b.put("whole", wide(unicode.LittleEndian, "\ufffd;😀\n"))
	text, _ := b.read(obj{"path": "whole"})
	assert.Contains(t, text, "edit keeps it so")
	b.edit(edit("whole", ";", ",,"))
	assert.Equal(t, wide(unicode.LittleEndian, "\ufffd,,😀\n"), b.get("whole"))
	b.put("mark", "\xff\xfe")
	assert.NotContains(t, b.refused(protocol.ReasonNoMatch, "edit", edit("mark", ";", "x")), "damaged")
}

// read finds out in pieces what edit finds out of the whole.
func TestWideReaderAgainstDecoder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	units := []string{"\x00a", "\xd8\x3d", "\xdc\x00", "\xd8\x3d\xdc\x00", "\xff\xfd", "\xfe\xff", "\xd7\xff", "\xe0\x00", "\x00\xd8"}
	whole := 0
	for range 3000 {
		var text strings.Builder
		for range r.IntN(6) {
			text.WriteString(units[r.IntN(len(units))])
		}
		content := "\xfe\xff" + text.String()
		encoding := utf16BE
		if r.IntN(2) == 0 {
			encoding = utf16LE
			swapped := []byte(content)
			for i := 0; i+1 < len(swapped); i += 2 {
				swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			}
			content = string(swapped)
		}
		if r.IntN(8) == 0 {
			content += "x"
		}
		if strings.HasPrefix(content, utf32Mark) {
			continue
		}
		require.Equal(t, encoding, wideEncoding([]byte(content)))
		_, ok := fromUTF16([]byte(content), encoding)
		if ok {
			whole++
		}
		order, _ := utf16Order(encoding)
		for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			w := newWideReader(pieces(strings.NewReader(content)), order)
			_, err := io.Copy(io.Discard, w.decoded(order))
			require.NoError(t, err)
			require.Equal(t, ok, !w.damaged(), "%q", content)
		}
	}
	assert.Greater(t, whole, 300)
	assert.Less(t, whole, 2700)
}
