package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sha(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// Case 68: a final newline ends the last line and begins no other one.
func TestReadCountsLines(t *testing.T) {
	b := newBench(t)
	b.put("two", "l1\nl2\n")
	b.put("open", "l1\nl2")
	b.put("empty", "")
	b.put("newline", "\n")
	b.put("blank", "l1\n\n\nl4\n")
	for _, c := range []struct {
		file          string
		offset, limit int
		want          string
		content       string
		total         int64
		more          bool
	}{
		{"two", 0, 0, "     1\tl1\n     2\tl2\n[lines 1-2 of 2, 6 bytes]", "l1\nl2\n", 2, false},
		{"two", 0, 2, "     1\tl1\n     2\tl2\n[lines 1-2 of 2, 6 bytes]", "l1\nl2\n", 2, false},
		{"two", 1, 1, "     1\tl1\n[lines 1-1 of 2, 6 bytes]\n[1 line more; continue with offset 2]", "l1\n", 2, true},
		{"two", 2, 0, "     2\tl2\n[lines 2-2 of 2, 6 bytes]", "l2\n", 2, false},
		{"two", 3, 0, "[offset 3 is past the end: two has 2 lines, 6 bytes]", "", 2, false},
		{"open", 0, 2, "     1\tl1\n     2\tl2\n[lines 1-2 of 2, 5 bytes]\n[no newline at the end]", "l1\nl2", 2, false},
		{"open", 0, 1, "     1\tl1\n[lines 1-1 of 2, 5 bytes]\n[1 line more; continue with offset 2]", "l1\n", 2, true},
		{"open", 2, 5, "     2\tl2\n[lines 2-2 of 2, 5 bytes]\n[no newline at the end]", "l2", 2, false},
		{"open", 3, 0, "[offset 3 is past the end: open has 2 lines, 5 bytes]", "", 2, false},
		{"empty", 0, 0, "[empty is empty]", "", 0, false},
		{"empty", 2, 0, "[offset 2 is past the end: empty has 0 lines, 0 bytes]", "", 0, false},
		{"newline", 0, 0, "     1\t\n[lines 1-1 of 1, 1 byte]", "\n", 1, false},
		{"blank", 2, 2, "     2\t\n     3\t\n[lines 2-3 of 4, 8 bytes]\n[1 line more; continue with offset 4]", "\n\n", 4, true},
	} {
		out, err := b.call("read", obj{"path": c.file, "offset": c.offset, "limit": c.limit})
		require.NoError(t, err)
		got := out.Structured.(readOutput)
		assert.Equal(t, c.want, out.Content[0].Text)
		assert.Equal(t, c.content, got.Content)
		assert.Equal(t, c.total, got.TotalLines)
		assert.Equal(t, c.more, got.Truncated)
		assert.Equal(t, sha(b.get(c.file)), got.SHA256)
		assert.Equal(t, strings.Contains(c.want, "past the end"), out.IsError)
	}
}

// Case 70: any line of a large file, under its own number.
func TestReadLargeFile(t *testing.T) {
	b := newBench(t)
	var all strings.Builder
	for i := 1; i <= 10_000; i++ {
		fmt.Fprintf(&all, "%-99d\n", i)
	}
	b.put("big", all.String())
	text, got := b.read(obj{"path": "big", "offset": 5000, "limit": 3})
	assert.Equal(t, fmt.Sprintf("  5000\t%-99d\n  5001\t%-99d\n  5002\t%-99d\n", 5000, 5001, 5002)+
		"[lines 5,000-5,002 of 10,000, 1,000,000 bytes]\n[4,998 lines more; continue with offset 5003]", text)
	assert.Equal(t, sha(all.String()), got.SHA256, "the hash is that of the whole file")
	_, got = b.read(obj{"path": "big", "offset": 9998, "limit": 3})
	assert.Equal(t, int64(10_000), got.LastLine)
	assert.False(t, got.Truncated)

	// Going on as the result says shows everything once, each part within the limit.
	var parts strings.Builder
	for offset := int64(1); ; {
		_, got := b.read(obj{"path": "big", "offset": offset})
		parts.WriteString(got.Content)
		assert.Equal(t, offset, got.FirstLine)
		if !got.Truncated {
			break
		}
		offset = got.LastLine + 1
	}
	assert.Equal(t, all.String(), parts.String())

	_, got = b.read(obj{"path": "big", "full": true})
	assert.Greater(t, len(got.Content), 200<<10)
	assert.True(t, got.Truncated)
}

// A file is read in one pass with the same few buffers, however big it is.
func TestReadMemoryIsBounded(t *testing.T) {
	b := newBench(t)
	f, err := os.Create(b.path("huge"))
	require.NoError(t, err)
	const blocks, lines = 16, 16*8<<10 + 1
	block := []byte(strings.Repeat(strings.Repeat("x", 127)+"\n", 8<<10)) // 1 MiB
	for range blocks {
		_, err := f.Write(block)
		require.NoError(t, err)
	}
	_, err = f.Write(bytes.Repeat([]byte("y"), 16<<20)) // and one line of 16 MiB
	require.NoError(t, err)
	require.NoError(t, f.Close())

	for _, input := range []obj{{"path": "huge", "offset": lines - 217, "limit": 2}, {"path": "huge", "offset": lines}, {"path": "huge", "offset": lines, "full": true}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, got := b.read(input)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
		assert.Equal(t, int64(lines), got.TotalLines)
		assert.NotEmpty(t, got.Content)
	}
}

func TestReadLongLines(t *testing.T) {
	b := newBench(t)
	b.put("min.js", "short\n"+strings.Repeat("é", 650_000)+"\n"+strings.Repeat("ü", 2000)+"\n"+strings.Repeat("a", 2001))
	text, got := b.read(obj{"path": "min.js"})
	assert.Equal(t, "short\n"+strings.Repeat("é", 2000)+"\n"+strings.Repeat("ü", 2000)+"\n"+strings.Repeat("a", 2000), got.Content)
	assert.True(t, got.Truncated)
	assert.Contains(t, text, strings.Repeat("é", 2000)+" …\n")
	assert.Contains(t, text, "[2 lines cut at 2,000 characters; full shows up to 262,144 bytes; the longest is line 2 with 650,000 characters]")

	text, got = b.read(obj{"path": "min.js", "offset": 2, "full": true})
	assert.Equal(t, 262_144-numberWidth(2), len(strings.TrimSuffix(got.Content, "\n")))
	assert.Equal(t, "", strings.Trim(got.Content, "é\n"), "cut between characters")
	assert.Contains(t, text, "`sed -n 2p FILE | cut -c 1-2000`")
	assert.Contains(t, text, "continue with offset 3")
}

// Cases 26 and 72, and what else is no plain UTF-8.
func TestReadBytesThatAreNoText(t *testing.T) {
	utf16 := func(order, s string) string {
		var out strings.Builder
		out.WriteString(order)
		for _, c := range s { // all below U+10000
			if order == "\xff\xfe" {
				out.Write([]byte{byte(c), byte(c >> 8)})
			} else {
				out.Write([]byte{byte(c >> 8), byte(c)})
			}
		}
		return out.String()
	}
	for _, c := range []struct {
		name, content string
		want          readOutput // Content, TotalLines, Encoding, MIMEType, Binary
		note          string
	}{
		{"UTF-16LE", utf16("\xff\xfe", "hi\n─é\r\n"), readOutput{Content: "hi\n─é\r\n", TotalLines: 2, Encoding: "utf-16le"}, "[the file is utf-16le; edit keeps it so, write would make it UTF-8]"},
		{"UTF-16BE", utf16("\xfe\xff", "hi\n"), readOutput{Content: "hi\n", TotalLines: 1, Encoding: "utf-16be"}, "utf-16be"},
		{"UTF-16 cut in the middle", "\xff\xfeh\x00i", readOutput{Content: "h\ufffd", TotalLines: 1, Encoding: "utf-16le"}, "[the file is utf-16le with characters that are damaged, and cannot be edited;"},
		{"UTF-16 without a mark", "h\x00i\x00\n\x00", readOutput{MIMEType: "application/octet-stream", Binary: true}, "6 bytes"},
		{"UTF-32", "\xff\xfe\x00\x00h\x00\x00\x00", readOutput{MIMEType: "text/plain; charset=utf-32", Binary: true}, "binary"},
		{"UTF-8 mark", "\xef\xbb\xbfhi\n", readOutput{Content: "hi\n", TotalLines: 1, Encoding: "utf-8-bom"}, "byte order mark"},
		{"Latin-1", "caf\xe9\nok\n", readOutput{Content: "caf\ufffd\nok\n", TotalLines: 2, Encoding: "unknown-8bit"}, "[not UTF-8, Latin-1 perhaps: 1 byte shown as U+FFFD]"},
		{"late NULs", strings.Repeat("a", 9000) + strings.Repeat("\x00", 500), readOutput{MIMEType: "application/octet-stream", Binary: true}, "9,500 bytes]\n[a text with NUL"},
		{"a stray NUL", strings.Repeat("line\n", 2000) + "x\x00y\n", readOutput{TotalLines: 2001, Encoding: "utf-8"}, ""},
		{"an early NUL", "x\x00y\n", readOutput{MIMEType: "application/octet-stream", Binary: true}, "4 bytes]\n[a text with NUL characters in it, it seems: the command `tr -d '\\000' <FILE` shows the rest]"},
		{"ELF", "\x7fELF\x02\x01\x01\x00\x00", readOutput{MIMEType: "application/octet-stream", Binary: true}, "not shown: application/octet-stream, 9 bytes]"},
		{"gzip", "\x1f\x8b\x08\xff\xff", readOutput{MIMEType: "application/x-gzip", Binary: true}, "application/x-gzip, 5 bytes"},
		{"PDF", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", readOutput{MIMEType: "application/pdf", Binary: true}, "application/pdf"},
		{"text that begins like a bitmap", "BMW\xfc\n", readOutput{Content: "BMW\ufffd\n", TotalLines: 1, Encoding: "unknown-8bit"}, "not UTF-8"},
		{"text that begins like a song", "ID3 tags\n", readOutput{Content: "ID3 tags\n", TotalLines: 1, Encoding: "utf-8"}, ""},
		{"escapes", "\x1b[31mred\x1b[0m\x01\n", readOutput{Content: "\x1b[31mred\x1b[0m\x01\n", TotalLines: 1, Encoding: "utf-8"}, ""},
		{"CRLF", "a\r\nb\r\nc\n", readOutput{Content: "a\r\nb\r\nc\n", TotalLines: 3, Encoding: "utf-8"}, "[2 line ends with CRLF]"},
		{"a character over the end of the head", strings.Repeat("a", headSize-1) + "é\n", readOutput{TotalLines: 1, Encoding: "utf-8"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", c.content)
			text, got := b.read(obj{"path": "f"})
			assert.Equal(t, sha(c.content), got.SHA256)
			assert.Equal(t, int64(len(c.content)), got.SizeBytes)
			assert.Contains(t, text, c.note)
			assert.NotContains(t, text, "\r")
			if c.want.Content == "" && !c.want.Binary {
				c.want.Content = got.Content
			}
			assert.Equal(t, c.want, readOutput{Content: got.Content, TotalLines: got.TotalLines, Encoding: got.Encoding, MIMEType: got.MIMEType, Binary: got.Binary})
		})
	}
	b := newBench(t)
	for _, bad := range []string{strings.Repeat("\xe9", 100_000), strings.Repeat("\xe9\xe9\xe9\n", 20_000)} {
		b.put("f", bad) // grows threefold and stays within the limit, as call checks
		b.read(obj{"path": "f"})
		_, got := b.read(obj{"path": "f", "full": true})
		assert.Less(t, len(got.Content), 256<<10)
	}
	b.put("f", strings.Repeat("line\n", 2000)+"x\x00y\n")
	text, got := b.read(obj{"path": "f", "offset": 2001})
	assert.Equal(t, "x\ufffdy\n", got.Content)
	assert.Contains(t, text, "[1 NUL character shown as U+FFFD]")
}

// Case 72: an image is an image, and a damaged one is told, not sent.
func TestReadImage(t *testing.T) {
	picture := image.NewGray(image.Rect(0, 0, 12, 34))
	encode := func(f func(*bytes.Buffer) error) string {
		var buf bytes.Buffer
		require.NoError(t, f(&buf))
		return buf.String()
	}
	aPNG := encode(func(w *bytes.Buffer) error { return png.Encode(w, picture) })
	aJPEG := encode(func(w *bytes.Buffer) error { return jpeg.Encode(w, picture, nil) })
	aGIF := encode(func(w *bytes.Buffer) error { return gif.Encode(w, picture, nil) })
	aWebP := "RIFF\x16\x00\x00\x00WEBPVP8 " + strings.Repeat("\x00", 20)
	for _, c := range []struct {
		name, content, mime, note string
		shown                     bool
	}{
		{"png", aPNG, "image/png", "bytes, 12×34 pixels", true},
		{"jpeg", aJPEG, "image/jpeg", "12×34 pixels", true},
		{"gif", aGIF, "image/gif", "12×34 pixels", true},
		{"webp", aWebP, "image/webp", "36 bytes", true},
		{"png header only", "\x89PNG\r\n\x1a\n", "image/png", "image/png, 8 bytes; not shown, it is damaged", false},
		{"png cut off", aPNG[:len(aPNG)-12], "image/png", "12×34 pixels; not shown, it is damaged", false},
		{"png too big", aPNG + strings.Repeat("x", 5<<20), "image/png", "not shown, more than 5,242,880 bytes", false},
		{"bitmap", "BM" + strings.Repeat("\x00", 60), "image/bmp", "binary", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", c.content)
			out, err := b.call("read", obj{"path": "f"})
			require.NoError(t, err)
			got := out.Structured.(readOutput)
			assert.Equal(t, c.mime, got.MIMEType)
			assert.Equal(t, sha(c.content), got.SHA256)
			assert.Contains(t, out.Content[0].Text, c.note)
			assert.Equal(t, !c.shown, got.Binary)
			if c.shown {
				assert.Equal(t, protocol.Content{Type: "image", MIMEType: c.mime, Data: []byte(c.content)}, out.Content[1])
			} else {
				assert.Len(t, out.Content, 1)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	b := newBench(t)
	b.put("dir/f", "x")
	assert.Contains(t, b.refused("invalid_params", "read", obj{"path": "dir"}), "list_files")
	assert.Contains(t, b.refused("invalid_params", "read", obj{"path": "."}), "list_files")
	assert.Equal(t, "none does not exist", b.refused("not_found", "read", obj{"path": "none"}))
	b.refused("not_found", "read", obj{"path": "dir/f/g"})
	b.refused("not_found", "read", obj{"path": "~/f"})

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.callIn(ctx, b.session, "read", obj{"path": "dir/f"})
	require.ErrorIs(t, err, context.Canceled)
	b.refused(protocol.ReasonStaleFile, "write", obj{"path": "dir/f", "content": "y"})
}

// Cases 79, 81, 82: names and boundaries, through the tools.
func TestReadPaths(t *testing.T) {
	b := newBench(t)
	b.put("bad\xff.txt", "here")
	b.put("sub/f", "inside")
	b.put("../ws-secret/loot", "secret")
	require.NoError(t, os.Symlink("/etc/passwd", b.path("leak")))
	require.NoError(t, os.Symlink("../ws-secret", b.path("d")))
	require.NoError(t, os.Symlink(b.path("sub"), b.path("abs")))
	_, got := b.read(obj{"path": `$'bad\xff.txt'`})
	assert.Equal(t, "here\n", got.Content+"\n")
	assert.Equal(t, `$'bad\xff.txt'`, got.Path)
	_, got = b.read(obj{"path": "abs/f"})
	assert.Equal(t, "sub/f", got.Path)
	for _, path := range []string{b.path("../ws-secret/loot"), "../ws-secret/loot", "leak", "d/loot", "/etc/passwd"} {
		b.refused(protocol.ReasonWorkspaceBoundary, "read", obj{"path": path})
	}
	docs := b.newSession(capabilities.Root{Path: b.path("sub")}, capabilities.Root{Path: b.path("../ws-secret"), ReadOnly: true})
	out, err := b.callIn(t.Context(), docs, "read", obj{"path": b.path("../ws-secret/loot")})
	require.NoError(t, err)
	assert.Equal(t, b.base+"/ws-secret/loot", out.Structured.(readOutput).Path)
}
