package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reopen opens a journal and returns its records by their heads, the newest of each.
func reopen(t testing.TB, dir string) (*Journal, map[string]Record, []Loss) {
	found := map[string]Record{}
	j, losses, err := Open(dir, "boot", func(r Record) {
		head := string(r.Head)
		if old, ok := found[head]; !ok || old.Seq <= r.Seq {
			r.Head = nil
			found[head] = r
		}
	})
	require.NoError(t, err)
	return j, found, losses
}

func write(t testing.TB, j *Journal, e Entry) Ref {
	e, err := j.Prepare(e)
	require.NoError(t, err)
	s := j.Stage(e)
	defer s.Release()
	require.NoError(t, s.Wait())
	return s.Ref()
}

func TestWrittenIsFoundAgain(t *testing.T) {
	dir := t.TempDir()
	j, found, losses := reopen(t, dir)
	require.Empty(t, found)
	require.Empty(t, losses)
	bodies := map[string][]byte{}
	refs := map[string]Ref{}
	for i, n := range []int{0, 1, 7, 8, 1000, BodyLimit, BodyLimit + 1, 3 << 20} {
		head := fmt.Sprint(i)
		bodies[head] = bytes.Repeat([]byte{byte(i), pattern, 0}, n/3+1)[:n]
		refs[head] = write(t, j, Entry{Kind: byte(i), Head: []byte(head), Body: bodies[head], Sync: i%2 == 0, Marked: i == 3})
	}
	require.NoError(t, j.Mark(refs["4"]))
	require.NoError(t, j.Mark(refs["7"]))
	for range 2 {
		for head, body := range bodies {
			got, err := j.Read(refs[head])
			require.NoError(t, err)
			require.True(t, bytes.Equal(body, got), head)
		}
		require.NoError(t, j.Close())
		require.NoError(t, j.Close())
		j, found, losses = reopen(t, dir)
		require.Empty(t, losses)
		require.Len(t, found, len(bodies))
		for head, r := range found {
			require.Equal(t, fmt.Sprint(r.Kind), head)
			require.Equal(t, head == "3" || head == "4" || head == "7", r.Marked, head)
			require.EqualValues(t, len(bodies[head]), r.BodyLen)
			refs[head] = r.Ref
		}
	}
	last := write(t, j, Entry{Head: []byte("new"), Body: []byte("new")}) // goes on behind
	require.Equal(t, found["7"].Ref.seg.id, last.seg.id)
	require.NoError(t, j.Close())
	_, err := j.Prepare(Entry{Body: []byte("x")})
	require.NoError(t, err)
	require.ErrorIs(t, j.Stage(Entry{}).Wait(), ErrClosed)
}

// Many writers: each record is there when its Wait has returned, and one sync serves
// many.
func TestGroupCommit(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := reopen(t, dir)
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := range 50 {
				ref := write(t, j, Entry{Head: fmt.Appendf(nil, "%d-%d", w, i), Body: make([]byte, 100*i), Sync: i%3 == 0})
				body, err := j.Read(ref)
				require.NoError(t, err)
				require.Len(t, body, 100*i)
			}
		})
	}
	all.Wait()
	require.NoError(t, j.Close())
	j, found, losses := reopen(t, dir)
	require.Empty(t, losses)
	require.Len(t, found, 16*50)
	require.NoError(t, j.Close())
}

// A process that is killed in the middle of a write leaves a torn end: it is cut, on
// disk, and what comes next is written over it.
func TestTornEnd(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := reopen(t, dir)
	write(t, j, Entry{Head: []byte("whole"), Body: []byte("x")})
	torn := write(t, j, Entry{Head: []byte("torn"), Body: bytes.Repeat([]byte("x"), 10_000)})
	path := torn.seg.path
	require.NoError(t, j.Close())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := torn.off + 5000; i < torn.off+10_100; i++ {
		raw[i] = pattern
	}
	require.NoError(t, os.WriteFile(path, raw, 0o600))

	j, found, losses := reopen(t, dir)
	require.Len(t, found, 1)
	require.Len(t, losses, 1)
	require.True(t, losses[0].Torn)
	require.Equal(t, torn.off, losses[0].Offset)
	require.Contains(t, losses[0].String(), "not finished")
	ref := write(t, j, Entry{Head: []byte("next")})
	require.Equal(t, torn.off, ref.off)
	require.NoError(t, j.Close())
	j, found, losses = reopen(t, dir)
	require.Empty(t, losses)
	require.Len(t, found, 2)
	require.NoError(t, j.Close())
}

// What is no file, where one of the journal's should be, is set aside; what is none of
// its business is left alone.
func TestStrangeFiles(t *testing.T) {
	for _, name := range []string{"journal-00000001.log", "body-00000001", spareName, manifestName} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		j, _, losses := reopen(t, dir)
		require.Equal(t, name == spareName, len(losses) == 0, name)
		require.DirExists(t, filepath.Join(dir, name+damagedSuffix))
		write(t, j, Entry{Head: []byte("x"), Sync: true})
		require.NoError(t, j.SetIncomplete(false))
		require.NoError(t, j.Close())
		j, found, losses := reopen(t, dir)
		require.Len(t, found, 1)
		require.Empty(t, losses)
		require.NoError(t, j.Close())
	}
	dir := t.TempDir()
	for _, name := range []string{"journal-1.log", "journal-x.log", "notes", "body-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	j, _, losses := reopen(t, dir)
	require.Empty(t, losses)
	require.NoError(t, j.Close())
	for _, name := range []string{"journal-1.log", "journal-x.log", "notes", "body-1"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, segmentName(1))))

	newer := headerOf(1, 1000)
	newer[8]++
	require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(1)), newer, 0o600))
	_, _, err := Open(dir, "boot", func(Record) {})
	require.ErrorIs(t, err, errNewer)
	_, _, err = Open(filepath.Join(dir, "nowhere"), "boot", func(Record) {})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A file that is gone is missed, and so is the list of them; it is reported until it is
// said that nothing is missing any more.
func TestMissing(t *testing.T) {
	write1MB := func(t *testing.T, dir string) string {
		j, _, _ := reopen(t, dir)
		id := j.ID()
		for i := range 40 {
			write(t, j, Entry{Head: fmt.Appendf(nil, "%d", i), Body: make([]byte, 25_000), Sync: i%2 == 0})
		}
		require.NoError(t, j.Close())
		return id
	}
	for name, harm := range map[string]func(dir string) error{
		"oldest":   func(dir string) error { return os.Remove(filepath.Join(dir, segmentName(1))) },
		"newest":   func(dir string) error { return os.Remove(filepath.Join(dir, segmentName(3))) },
		"manifest": func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) },
		"emptied":  func(dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id := write1MB(t, dir)
			require.NoError(t, harm(dir))
			for n := range 2 {
				j, _, losses := reopen(t, dir)
				require.NotEmpty(t, losses)
				require.False(t, losses[0].Torn)
				require.Equal(t, n > 0 || name == "oldest" || name == "newest", id == j.ID())
				require.NoError(t, j.Close())
				id = j.ID()
			}
			j, _, _ := reopen(t, dir)
			require.NoError(t, j.SetIncomplete(false))
			require.NoError(t, j.SetIncomplete(false))
			require.NoError(t, j.Close())
			j, _, losses := reopen(t, dir)
			require.Empty(t, losses)
			require.NoError(t, j.Close())
		})
	}
	// One damaged slot is as good as none, and a kill at any moment is no loss.
	dir := t.TempDir()
	id := write1MB(t, dir)
	for _, at := range []int64{20, slotSize + 20} {
		f, err := os.OpenFile(filepath.Join(dir, manifestName), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("damage"), at)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		j, _, losses := reopen(t, dir)
		require.Empty(t, losses)
		require.Equal(t, id, j.ID())
		require.NoError(t, j.manifest.change(func(*listing) {}))
		require.NoError(t, j.Close())
	}
}

// Left-overs of a crash do not pile up.
func TestLitter(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := reopen(t, dir)
	ref := write(t, j, Entry{Head: []byte("a"), Body: make([]byte, BodyLimit+1)})
	_, err := j.Prepare(Entry{Body: make([]byte, BodyLimit+1)}) // killed before Stage
	require.NoError(t, err)
	require.NoError(t, j.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(0)), []byte("half a spare one"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, spareName), []byte("short"), 0o600))
	j, found, _ := reopen(t, dir)
	require.Len(t, found, 1)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "the manifest, a segment, a spare one and a body")
	next := write(t, j, Entry{Head: []byte("b"), Body: make([]byte, BodyLimit+1)})
	require.NotEqual(t, ref.own, next.own)
	j.Drop(next)
	require.NoFileExists(t, filepath.Join(dir, next.own))
	require.NoError(t, j.Close())
}

// Damaged segments are set aside, and not for ever.
func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	for i := range keepDamaged + 3 {
		j, found, losses := reopen(t, dir)
		require.Equal(t, i > 0, len(losses) > 0)
		for {
			victim, ok := j.Victim()
			if !ok {
				break
			}
			for _, r := range found {
				if r.Ref.In(victim) {
					s, err := j.Copy(r.Ref, r.Marked)
					require.NoError(t, err)
					require.NoError(t, s.Wait())
					s.Release()
					j.Moved(r.Ref)
				}
			}
			require.NoError(t, j.Remove(victim))
		}
		ref := write(t, j, Entry{Head: fmt.Appendf(nil, "kept %d", i)})
		path := ref.seg.path
		require.NoError(t, j.Close())
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		raw[20] ^= 1 // its header
		require.NoError(t, os.WriteFile(path, raw, 0o600))
	}
	aside, err := filepath.Glob(filepath.Join(dir, "*"+damagedSuffix))
	require.NoError(t, err)
	require.Len(t, aside, keepDamaged)
	j, found, _ := reopen(t, dir)
	require.Len(t, found, keepDamaged+3)
	require.NoError(t, j.Close())
}

// Whatever the bytes are: no panic, and records are found only where they are.
func FuzzScan(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	whole := headerOf(1, 4096)
	for i := range 5 {
		var p pieces
		p.add(Entry{Kind: 1, Head: []byte("head"), Body: []byte(strings.Repeat("body", r.IntN(50)))}, uint64(i+1))
		whole = append(whole, p.tail...)
	}
	f.Add(whole, 40, byte(1))
	f.Add(bytes.Repeat([]byte{pattern}, 100), 3, byte(9))
	f.Fuzz(func(t *testing.T, b []byte, at int, x byte) {
		b = bytes.Clone(b)
		if len(b) > 0 {
			b[uint(at)%uint(len(b))] ^= x
		}
		records, gaps, end := scan(b, min(segmentHeader, len(b)))
		require.LessOrEqual(t, end, len(b))
		for _, r := range records {
			again, ok := parse(b, r.off)
			require.True(t, ok)
			require.Equal(t, r, again)
			for _, g := range gaps {
				require.True(t, g.end <= r.off || g.off >= r.end-align)
			}
		}
		_, _ = readHeader(b)
	})
}
