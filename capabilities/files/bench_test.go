package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/require"
)

// BenchmarkAgainstFloor runs the tools beside the least that could be done by hand for
// the same, one after the other, and prints the medians of the ratios, and the ratios of
// the best times, which a busy machine disturbs less. The goals: a
// read of 10 MB ≤ 1.3, a slice of 1 MB of a file that was read ≤ 3 times one pread, a
// line deep in 500 MB ≤ 1.3 times counting newlines at first and ≤ 0.05 times it
// again, a write ≤ 1.3, an edit of 1 MB ≤ 1.5; 1,000 small reads, 32 at a time, ≤ 40 ms.
// Each row can be run for itself.
func BenchmarkAgainstFloor(b *testing.B) {
	row := strings.Repeat("x", 99) + "\n"
	for _, c := range []struct {
		name string
		run  func(*testing.B, *bench, string)
	}{
		{"read-10MB", benchRead},
		{"500MB", benchLarge},
		{"write-100KB", benchWrite},
		{"edit-1MB", benchEdit},
		{"1000-small-reads", benchSmall},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			for range b.N {
				x := newBench(b)
				x.files.opts.MaxFullBytes = 32 << 20
				c.run(b, x, row)
			}
		})
	}
}

func benchRead(b *testing.B, x *bench, row string) {
	x.put("10MB", strings.Repeat(row, 10<<20/len(row)))
	x.compare(b, "read-10MB", 7, func() { x.forget(); x.run("read", obj{"path": "10MB", "full": true}) }, func() { floorRead(b, x.path("10MB")) })
	x.compare(b, "read-10MB-head", 7, func() { x.forget(); x.run("read", obj{"path": "10MB"}) }, func() { floorHash(b, x.path("10MB")) })
}

func benchLarge(b *testing.B, x *bench, row string) {
	path := x.path("500MB")
	writeLines(b, path, row, 500<<20)
	settle(b, path)
	total := int64(500 << 20 / len(row))
	x.run("read", obj{"path": "500MB"})
	const slice = 1 << 20
	x.compare(b, "slice-1MB", 41, func() {
		x.run("read", obj{"path": "500MB", "offset": total / 2, "limit": slice / len(row), "full": true})
	}, func() { floorPread(b, path, slice, 250<<20) })
	counted := func() { floorCount(b, path) }
	x.compare(b, "deep-first", 5, func() { x.forget(); x.run("read", obj{"path": "500MB", "offset": total - 100, "limit": 10}) }, counted)
	x.compare(b, "deep-again", 5, func() { x.run("read", obj{"path": "500MB", "offset": total - 100, "limit": 10}) }, counted)
}

func benchWrite(b *testing.B, x *bench, row string) {
	content := strings.Repeat(row, 1<<10)
	n := 0
	var write func() protocol.ToolOutput
	x.compareAfter(b, "write-100KB", 101, func() { // as the connection has just read it
		write = x.prepared("write", obj{"path": "w", "content": content[3:] + fmt.Sprintf("%03d", n)})
		n++
	}, func() { write() }, func() { floorWrite(b, x.path("floor"), content) })
}

func benchEdit(b *testing.B, x *bench, row string) {
	mark := "here"
	x.put("1MB", strings.Repeat(row, 1<<20/len(row))+mark)
	x.compare(b, "edit-1MB", 31, func() {
		x.run("edit", obj{"path": "1MB", "old_string": mark, "new_string": mark + "+"})
		mark += "+"
	}, func() { floorEdit(b, x.path("floor"), x.path("1MB")) })
}

func benchSmall(b *testing.B, x *bench, _ string) {
	for i := range 100 {
		x.put(fmt.Sprintf("small/%d", i), strings.Repeat("a short line of text\n", 40))
	}
	var ms []float64
	for range 7 {
		began := time.Now()
		var readers sync.WaitGroup
		for r := range 32 {
			readers.Go(func() {
				for i := r; i < 1000; i += 32 {
					x.run("read", obj{"path": fmt.Sprintf("small/%d", i%100)})
				}
			})
		}
		readers.Wait()
		ms = append(ms, float64(time.Since(began).Microseconds())/1000)
	}
	b.ReportMetric(median(ms), "1000-small-reads-ms")
}

// forget makes the next read of a file the first one.
func (b *bench) forget() { b.files.indexes = indexes{} }

// run calls a tool without looking at the result.
func (b *bench) run(tool string, input obj) protocol.ToolOutput { return b.prepared(tool, input)() }

// prepared is the call of a tool that comes as JSON.
func (b *bench) prepared(tool string, input obj) func() protocol.ToolOutput {
	raw, err := json.Marshal(input)
	require.NoError(b.t, err)
	return func() protocol.ToolOutput { return b.runRaw(tool, raw) }
}

func (b *bench) runRaw(tool string, raw []byte) protocol.ToolOutput {
	r, _ := b.registry.Tool(tool)
	handler, err := r.Prepare(raw)
	require.NoError(b.t, err)
	c := capabilities.NewCall(capabilities.CallConfig{Session: b.session, ID: "c", Tool: r, Input: raw})
	defer c.Close()
	out, err := handler(context.Background(), c)
	require.NoError(b.t, err)
	return out
}

// compare reports how much longer ours takes than the floor does.
func (b *bench) compare(r *testing.B, name string, rounds int, ours, floor func()) {
	b.compareAfter(r, name, rounds, func() {}, ours, floor)
}

// compareAfter is compare with something that is not measured before ours.
func (b *bench) compareAfter(r *testing.B, name string, rounds int, before, ours, floor func()) {
	var ratios, times, floors []float64
	for range rounds {
		began := time.Now()
		floor()
		least := time.Since(began)
		before()
		began = time.Now()
		ours()
		took := time.Since(began)
		ratios = append(ratios, float64(took)/float64(least))
		times, floors = append(times, float64(took.Microseconds())/1000), append(floors, float64(least.Microseconds())/1000)
	}
	r.ReportMetric(median(ratios), name+"-ratio")
	r.ReportMetric(slices.Min(times)/slices.Min(floors), name+"-best-ratio")
	r.ReportMetric(median(times), name+"-ms")
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// settle waits until a file is old enough to have an index.
func settle(b testing.TB, path string) {
	for {
		info, err := os.Stat(path)
		require.NoError(b, err)
		if settled(info, time.Now()) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func floorRead(b *testing.B, path string) (string, string) {
	content, err := os.ReadFile(path)
	require.NoError(b, err)
	sum := sha256.Sum256(content)
	text := make([]byte, 0, len(content)+len(content)/8)
	number := 0
	for rest := content; len(rest) > 0; {
		number++
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			i = len(rest) - 1
		}
		text = strconv.AppendInt(append(text, "  "...), int64(number), 10)
		text = append(append(text, '\t'), rest[:i+1]...)
		rest = rest[i+1:]
	}
	return string(text), string(content) + string(sum[:])
}

func floorHash(b *testing.B, path string) {
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	hash, buf, lines := sha256.New(), make([]byte, bufferSize), 0
	for {
		n, err := f.Read(buf)
		hash.Write(buf[:n])
		lines += bytes.Count(buf[:n], newline)
		if err == io.EOF {
			return
		}
		require.NoError(b, err)
	}
}

func floorCount(b *testing.B, path string) {
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	buf, lines := make([]byte, bufferSize), 0
	for {
		n, err := f.Read(buf)
		lines += bytes.Count(buf[:n], newline)
		if err == io.EOF {
			return
		}
		require.NoError(b, err)
	}
}

func floorPread(b *testing.B, path string, size int, at int64) {
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	_, err = f.ReadAt(make([]byte, size), at)
	require.NoError(b, err)
}

func floorWrite(b *testing.B, path, content string) {
	f, err := os.CreateTemp(filepath.Dir(path), "floor")
	require.NoError(b, err)
	_, err = f.WriteString(content)
	require.NoError(b, err)
	require.NoError(b, f.Sync())
	require.NoError(b, f.Close())
	require.NoError(b, os.Rename(f.Name(), path))
	dir, err := os.Open(filepath.Dir(path))
	require.NoError(b, err)
	require.NoError(b, dir.Sync())
	require.NoError(b, dir.Close())
}

func floorEdit(b *testing.B, path, from string) {
	content, err := os.ReadFile(from)
	require.NoError(b, err)
	floorWrite(b, path, strings.Replace(string(content), "xxx\n", "yyy\n", 1))
}
