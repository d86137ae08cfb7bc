package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func write(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		_, err := l.Write(Entry{Event: EventDecided, Tool: "bash", Call: fmt.Sprint(i), Input: "ls"})
		require.NoError(t, err)
	}
}

func all(t *testing.T, dir string) (list []Entry) {
	t.Helper()
	require.NoError(t, Read(dir, func(e Entry) error {
		list = append(list, e)
		return nil
	}))
	return list
}

func good(t *testing.T, dir string) Report {
	t.Helper()
	r, err := Verify(dir)
	require.NoError(t, err)
	require.Empty(t, r.Problems)
	return r
}

func TestLinesAreChainedOverFilesAndRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	for range 3 {
		l := open(t, Options{Dir: dir, MaxBytes: 2000})
		write(t, l, 20)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "twice is fine")
		_, err := l.Write(Entry{})
		require.Error(t, err)
	}
	r := good(t, dir)
	assert.Equal(t, int64(66), r.Lines)
	assert.Equal(t, uint64(66), r.Last)
	assert.Greater(t, r.Files, 3)
	list := all(t, dir)
	require.Len(t, list, 66)
	for i, e := range list {
		require.Equal(t, uint64(i+1), e.Seq)
	}
	info, err := os.Stat(filepath.Join(dir, fileName(1)))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestOldFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, MaxBytes: 1000, Keep: 3})
	write(t, l, 100)
	r := good(t, dir)
	assert.Equal(t, 3, r.Files)
	assert.Greater(t, r.First, uint64(1))
	assert.Equal(t, uint64(101), r.Last)
}

// What was changed or removed shows.
func TestTampering(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(lines [][]byte) [][]byte
		says string
	}{
		{"changed", func(l [][]byte) [][]byte { l[5] = bytes.Replace(l[5], []byte("bash"), []byte("read"), 1); return l }, "does not follow"},
		{"removed", func(l [][]byte) [][]byte { return append(l[:5:5], l[6:]...) }, "does not follow"},
		{"two removed", func(l [][]byte) [][]byte { return append(l[:5:5], l[7:]...) }, "does not follow"},
		{"swapped", func(l [][]byte) [][]byte { l[4], l[5] = l[5], l[4]; return l }, "does not follow"},
		{"added", func(l [][]byte) [][]byte { return append(l[:5:5], append([][]byte{l[4]}, l[5:]...)...) }, "does not follow"},
		{"first removed", func(l [][]byte) [][]byte { return l[1:] }, "does not begin with the first line"},
		{"last removed", func(l [][]byte) [][]byte { return l[:len(l)-1] }, "was written: removed"},
		{"last changed", func(l [][]byte) [][]byte {
			n := len(l) - 1
			l[n] = bytes.Replace(l[n], []byte("bash"), []byte("read"), 1)
			return l
		}, "is not the line that was written"},
		{"not JSON", func(l [][]byte) [][]byte { l[5] = []byte("x\n"); return l }, "is not a line of the log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, Options{Dir: dir})
			write(t, l, 10)
			path := filepath.Join(dir, fileName(1))
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, bytes.Join(c.do(bytes.SplitAfter(raw, []byte("\n"))[:11]), nil), 0o600))
			r, err := Verify(dir)
			require.NoError(t, err)
			require.NotEmpty(t, r.Problems)
			assert.Contains(t, strings.Join(r.Problems, "\n"), c.says)
		})
	}
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, MaxBytes: 500})
	write(t, l, 20)
	require.NoError(t, os.Remove(filepath.Join(dir, fileName(3))))
	r, err := Verify(dir)
	require.NoError(t, err)
	assert.Contains(t, strings.Join(r.Problems, "\n"), fileName(3)+" is missing")
}

// A crash cuts the last line off: the next start says so and goes on.
func TestTornTail(t *testing.T) {
	for cut := range 3 {
		dir := t.TempDir()
		l := open(t, Options{Dir: dir})
		write(t, l, 3)
		path := filepath.Join(dir, fileName(1))
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(`{"seq":5,"ti`[:cut*5+1])
		require.NoError(t, err)
		require.NoError(t, f.Close())
		r := good(t, dir)
		assert.Positive(t, r.Torn)
		open(t, Options{Dir: dir})
		r = good(t, dir)
		assert.Zero(t, r.Torn)
		list := all(t, dir)
		assert.Equal(t, EventTorn, list[4].Event)
		assert.Equal(t, int64(cut*5+1), list[4].Bytes)
		assert.Equal(t, EventStart, list[5].Event)
	}
}

// Lines that are gone at the end are said at the next start, and their numbers stay free.
func TestLinesMissingAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	write(t, l, 5)
	path := filepath.Join(dir, fileName(1))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(raw, []byte("\n"))
	require.NoError(t, os.WriteFile(path, bytes.Join(lines[:3], nil), 0o600))
	open(t, Options{Dir: dir})
	list := all(t, dir)
	last := list[len(list)-1]
	assert.Equal(t, uint64(7), last.Seq)
	assert.Contains(t, last.Text, "the lines 4 to 6 are not there")
	r, err := Verify(dir)
	require.NoError(t, err)
	assert.NotEmpty(t, r.Problems, "the gap stays")
}

// A disk that takes nothing loses lines, which are counted and written down when it takes some again.
func TestWhatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := open(t, Options{Dir: dir, MaxBytes: 1}) // each line needs a new file
	moved := dir + ".away"
	require.NoError(t, os.Rename(dir, moved))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // in its place, so that it cannot be made again
	for range 3 {
		seq, err := l.Write(Entry{Event: EventDecided})
		require.NoError(t, err, "calls go on")
		require.Zero(t, seq)
	}
	lost, why := l.Lost()
	assert.Equal(t, int64(3), lost)
	require.Error(t, why)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Rename(moved, dir))
	require.Eventually(t, func() bool {
		seq, err := l.Write(Entry{Event: EventDecided})
		return err == nil && seq > 0
	}, 10*time.Second, 50*time.Millisecond)
	_, why = l.Lost()
	require.NoError(t, why)
	r := good(t, dir)
	lost, _ = l.Lost()
	assert.Equal(t, lost, r.Lost)

	required := open(t, Options{Dir: filepath.Join(t.TempDir(), "x"), MaxBytes: 1, Required: true})
	require.NoError(t, os.RemoveAll(required.options.Dir))
	require.NoError(t, os.WriteFile(required.options.Dir, nil, 0o600)) // in its place, so that it cannot be made again
	_, err := required.Write(Entry{})
	require.ErrorContains(t, err, "the audit log cannot be written")
}

func TestConcurrentWritersAndFollow(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, MaxBytes: 4000, Keep: 100})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var followed []uint64
	var group sync.WaitGroup
	const writers, each = 8, 25
	group.Go(func() {
		err := Follow(ctx, dir, 1000, func(e Entry) error {
			followed = append(followed, e.Seq)
			if len(followed) == 1+writers*each {
				return errors.New("enough")
			}
			return nil
		})
		assert.ErrorContains(t, err, "enough")
	})
	for range writers {
		group.Go(func() { write(t, l, each) })
	}
	group.Wait()
	for i, seq := range followed {
		require.Equal(t, uint64(i+1), seq)
	}
	good(t, dir)
}

func TestNoLog(t *testing.T) {
	_, err := Verify(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorIs(t, Read(filepath.Join(t.TempDir(), "none"), nil), os.ErrNotExist)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, headName), []byte("nonsense"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, fileName(7)), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit-x.jsonl"), nil, 0o600))
	l := open(t, Options{Dir: dir})
	write(t, l, 1)
	good(t, dir)
}

func BenchmarkWrite(b *testing.B) {
	for _, required := range []bool{false, true} {
		b.Run(fmt.Sprint("required=", required), func(b *testing.B) {
			l := open(b, Options{Dir: b.TempDir(), Required: required})
			e := Entry{Event: EventDecided, Brain: "wss://brain/executor", Session: "ses_1", Tool: "bash", Call: "call_1", Input: strings.Repeat("x", 200), Decision: "allow", By: "policy", Rule: "trust full"}
			for b.Loop() {
				if _, err := l.Write(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestHeadOrAllLinesAreMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := open(t, Options{Dir: dir})
	write(t, l, 3)
	require.NoError(t, l.Close())
	good(t, dir)
	head := filepath.Join(dir, headName)
	for _, spoil := range []func() error{func() error { return os.WriteFile(head, []byte("x"), 0o600) }, func() error { return os.Remove(head) }} {
		require.NoError(t, spoil())
		r, err := Verify(dir)
		require.NoError(t, err)
		require.Len(t, r.Problems, 1)
		assert.Contains(t, r.Problems[0], "head")
	}
	l = open(t, Options{Dir: dir})
	require.NoError(t, l.Close())
	list := all(t, dir)
	assert.Contains(t, list[len(list)-2].Text, "missing or damaged", "the log keeps that its head was gone")

	require.NoError(t, os.Remove(filepath.Join(dir, fileName(1))))
	require.NoError(t, os.Remove(head))
	r, err := Verify(dir)
	require.NoError(t, err)
	require.Len(t, r.Problems, 1)
	assert.Contains(t, r.Problems[0], "no line")
}
