package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lookAt reads a file by its index, or else as a whole and indexes it.
func (b *bench) lookAt(name string, w window) *look {
	b.t.Helper()
	file, err := os.Open(b.path(name))
	require.NoError(b.t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(b.t, err)
	l := &look{info: info, window: w, index: b.files.indexes.get(stampSum(info, capabilities.Path{})), page: &page{}}
	buffer := b.files.buffer()
	defer b.files.giveBack(buffer)
	if l.index != nil {
		require.NoError(b.t, l.again(b.t.Context(), file, buffer))
		return l
	}
	_, err = l.first(b.t.Context(), file, buffer, 0)
	require.NoError(b.t, err)
	l.began = time.Now().Add(time.Hour) // long after the file was written
	b.files.remember(l, file)
	return l
}

// Whatever line is asked for, what comes by the index is what a whole pass finds.
func TestIndexAgainstScan(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name, mark string
		line       func() int
		end        string
	}{
		{"short lines", "", func() int { return random.IntN(80) }, "\n"},
		{"a mark, no end", utf8Mark, func() int { return random.IntN(300) }, "no end"},
		{"lines over blocks", "", func() int { return random.IntN(10) * random.IntN(60_000) }, "\n"},
		{"empty lines", "", func() int { return 0 }, ""},
		{"a million short lines", "", func() int { return -random.IntN(7) }, "no end"},
		{"no text in between", "", func() int { return random.IntN(400) - 1 }, "\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			var content bytes.Buffer
			content.WriteString(c.mark)
			for content.Len() < 5<<18 {
				n := c.line()
				for range n / 8 {
					content.WriteString("é123456")
				}
				if n < 0 { // what is shown as it is, but not in one piece
					content.WriteString([]string{"x\r", "y"}[random.IntN(2)])
				}
				if n == -1 && random.IntN(10) == 0 {
					content.WriteString([]string{"\xff", "\x00"}[random.IntN(2)])
				}
				content.WriteByte('\n')
			}
			content.WriteString(c.end)
			b.put("f", content.String())
			total := int64(len(bytes.SplitAfter(content.Bytes(), newline)))
			b.lookAt("f", window{first: 1})
			offsets := []int64{1, 2, total - 1, total, total + 1, total + 100}
			for range full(40, 3) {
				offsets = append(offsets, 1+random.Int64N(total))
			}
			for _, first := range offsets {
				w := window{first: first, limit: 1 + random.Int64N(50), chars: []int{0, 200}[random.IntN(2)], bytes: 30_000}
				if random.IntN(2) == 0 { // a long one
					w.limit, w.bytes = 1+random.Int64N(30_000), 1+random.IntN(2<<20)
				}
				by := b.lookAt("f", w)
				require.NotNil(t, by.index)
				b.files.indexes = indexes{}
				whole := b.lookAt("f", w)
				require.Nil(t, whole.index)
				require.Equal(t, whole.page.text.String(), by.page.text.String(), "%+v", w)
				require.Equal(t, whole.page.content.String(), by.page.content.String())
				require.Equal(t, whole.page.notes, by.page.notes)
				require.Equal(t, whole.found.count, by.found.count)
				require.Equal(t, whole.found.total, by.found.total)
				require.Equal(t, whole.found.unending, by.found.unending)
				require.Equal(t, whole.content, by.content)
				require.Equal(t, whole.size, by.size)
				require.Equal(t, whole.format, by.format)
			}
		})
	}
}

// A file that has changed has no index, and a fresh one is not trusted yet.
func TestIndexIsOfTheFile(t *testing.T) {
	b := newBench(t)
	b.put("f", strings.Repeat("line\n", 1<<18))
	b.lookAt("f", window{first: 1})
	require.NotNil(t, b.lookAt("f", window{first: 1}).index)
	info, err := os.Stat(b.path("f"))
	require.NoError(t, err)
	b.put("f", strings.Repeat("LINE\n", 1<<18))
	require.NoError(t, os.Chtimes(b.path("f"), info.ModTime(), info.ModTime()))
	assert.Nil(t, b.lookAt("f", window{first: 1}).index, "the times were set back")
	assert.NotNil(t, b.lookAt("f", window{first: 1}).index)

	now := time.Now()
	assert.False(t, settled(info, info.ModTime()))
	assert.False(t, settled(info, changeTime(info).Add(50*time.Millisecond)))
	assert.True(t, settled(info, now.Add(time.Minute)))
}

// However many files are read, the indexes together are bounded, and those used last
// stay.
func TestIndexesAreBounded(t *testing.T) {
	var x indexes
	stamp := func(i int) sum { return sumOf(fmt.Append(nil, i)) }
	for i := range 40 {
		x.put(&index{stamp: stamp(i), blocks: make([]int64, maxIndexBlocks/8)})
		assert.NotNil(t, x.get(stamp(0)))
	}
	assert.Equal(t, maxIndexBlocks, x.blocks)
	assert.Len(t, x.known, 8)
	assert.NotNil(t, x.get(stamp(39)))
	assert.Nil(t, x.get(stamp(20)))
	x.put(&index{stamp: stamp(99), blocks: make([]int64, maxIndexBlocks+1)})
	assert.Nil(t, x.get(stamp(99)))
}

// hashed waits until what is hashed late is there.
func (b *bench) hashed() {
	seenBy(b.session).hashing.Wait()
}

// Above 64 MiB a file is hashed behind the reader's back: memory and the time for any
// line stay bounded, and the hash still decides. 2 GiB in full.
func TestReadHugeFile(t *testing.T) {
	b := newBench(t)
	size := full(int64(2<<30), maxHash+1<<20)
	line := strings.Repeat("x", 99) + "\n"
	writeLines(t, b.path("huge"), line, size)
	settle(t, b.path("huge"))
	total := size / int64(len(line))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, got := b.read(obj{"path": "huge", "offset": total - 1, "limit": 1})
	assert.Equal(t, total, got.TotalLines)
	assert.Equal(t, line, got.Content)
	assert.Empty(t, got.SHA256)
	assert.Contains(t, text, "[1 line more; continue with offset")
	b.hashed()
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "memory is bounded, whatever the size")
	_, got = b.read(obj{"path": "huge", "offset": total / 2, "limit": 2})
	assert.Equal(t, line+line, got.Content)
	assert.Equal(t, total/2, got.FirstLine)
	assert.Equal(t, hashOf(t, b.path("huge")), got.SHA256)

	b.refused("payload_too_large", "edit", edit("huge", "x", "y"))
	poke(t, b.path("huge"), "X", size/2)
	b.refused("stale_file", "write", obj{"path": "huge", "content": "x"})
	soon := time.Now().Add(time.Hour) // of a file that has just changed it is there at once
	require.NoError(t, os.Chtimes(b.path("huge"), soon, soon))
	_, got = b.read(obj{"path": "huge", "offset": 5, "limit": 1})
	assert.Equal(t, hashOf(t, b.path("huge")), got.SHA256)
	b.write(obj{"path": "huge", "content": "small"})
}

// The hash of a large file decides, never its times, and is that of what was read.
func TestHashOfLargeFile(t *testing.T) {
	b := newBench(t)
	line := strings.Repeat("x", 99) + "\n"
	fresh := func(name string) {
		writeLines(t, b.path(name), line, maxHash+1<<20)
		settle(t, b.path(name))
	}
	fresh("touched")
	b.read(obj{"path": "touched", "limit": 1})
	b.hashed()
	now := time.Now()
	require.NoError(t, os.Chtimes(b.path("touched"), now, now))
	b.write(obj{"path": "touched", "content": "x"})

	fresh("moved")
	b.read(obj{"path": "moved", "limit": 1})
	b.hashed()
	_, err := b.call("move", obj{"from": "moved", "to": "again"})
	require.NoError(t, err)
	b.write(obj{"path": "again", "content": "x"})

	// While it was not hashed yet it changed: what was read is not what is there.
	fresh("changed")
	b.files.hashing <- struct{}{}
	b.read(obj{"path": "changed", "limit": 1})
	poke(t, b.path("changed"), "X", 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.callIn(ctx, b.session, "write", obj{"path": "changed", "content": "x"})
	require.ErrorIs(t, err, context.Canceled)
	<-b.files.hashing
	b.refused("stale_file", "write", obj{"path": "changed", "content": "x"})
	b.write(obj{"path": "changed", "content": "x", "unsafe_overwrite": true})

	// Not text: known by its hash as well, and only its head is read before that.
	f, err := os.Create(b.path("binary"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxHash+1))
	require.NoError(t, f.Close())
	_, got := b.read(obj{"path": "binary"})
	assert.True(t, got.Binary)
	b.hashed()
	_, got = b.read(obj{"path": "binary"})
	assert.Equal(t, hashOf(t, b.path("binary")), got.SHA256)

	// A session that ends does not wait for its hashes.
	fresh("left")
	s := b.newSession(capabilities.Root{Path: b.path()})
	b.files.hashing <- struct{}{}
	_, err = b.callIn(t.Context(), s, "read", obj{"path": "left", "limit": 1})
	require.NoError(t, err)
	seenBy(s).close()
	<-b.files.hashing
}

func TestHashesAreBounded(t *testing.T) {
	var h hashes
	for i := range maxHashes + 10 {
		h.put(sumOf(fmt.Append(nil, i)), sum{})
	}
	assert.Len(t, h.known, 10)
}

func poke(t *testing.T, path, text string, at int64) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(text), at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func hashOf(t *testing.T, path string) string {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	require.NoError(t, err)
	return hex.EncodeToString(h.Sum(nil))
}

// writeLines makes a file of lines.
func writeLines(t testing.TB, path, line string, size int64) {
	f, err := os.Create(path)
	require.NoError(t, err)
	left, many := int(size/int64(len(line))), 1+(1<<20)/len(line)
	block := strings.Repeat(line, many)
	for ; left > 0; left -= many {
		_, err := f.WriteString(block[:len(line)*min(left, many)])
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}

// A file that is mostly a hole, and one that is a single line.
func TestReadOddSizes(t *testing.T) {
	b := newBench(t)
	f, err := os.Create(b.path("sparse"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2<<30))
	require.NoError(t, f.Close())
	began := time.Now()
	text, got := b.read(obj{"path": "sparse"})
	assert.Less(t, time.Since(began), time.Second)
	assert.True(t, got.Binary)
	assert.Equal(t, int64(2<<30), got.SizeBytes)
	assert.Contains(t, text, "2,147,483,648 bytes")

	size, said := 1<<20, "1,048,576"
	if full(true, false) {
		size, said = 5<<20, "5,242,880"
	}
	b.put("line", strings.Repeat("a", size-1)+"b")
	for range 2 {
		text, got = b.read(obj{"path": "line"})
		assert.Equal(t, int64(1), got.TotalLines)
		assert.True(t, got.Truncated)
		assert.Contains(t, text, "the longest is line 1 with "+said+" characters")
	}
	_, edited := b.edit(edit("line", "ab", "c"))
	assert.True(t, edited.Truncated)
	assert.Equal(t, strings.Repeat("a", size-2)+"c", b.get("line"))
	b.refused("no_match", "edit", edit("line", "no such thing", ""))
}
