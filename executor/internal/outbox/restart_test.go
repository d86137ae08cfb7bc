package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agent-executor/executor/executor/internal/outbox/journal"
	"github.com/agent-executor/executor/protocol"
)

// crash is what a kill leaves of a box: a copy of its files as they are now, and the
// box that opens them.
func crash(t require.TestingT, b *Box, dir string) (*Box, string) {
	copied, err := os.MkdirTemp(filepath.Dir(dir), "crashed")
	require.NoError(t, err)
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	b.work.Wait() // the copy of a directory is not one moment of it
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	if !closed {
		require.NoError(t, b.Close())
	}
	again, err := Open(copied)
	require.NoError(t, err)
	require.Empty(t, again.Losses())
	return again, copied
}

func openIn(t require.TestingT, dir string) *Box {
	b, err := Open(dir)
	require.NoError(t, err)
	return b
}

// What is there after a kill, and again after the next one.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	b := openIn(t, dir)
	for _, id := range []string{"acked", "owed", "running", "read", "large"} {
		_, err := b.Accept(call("s", id, `{"a":1}`), id == "read")
		require.NoError(t, err)
	}
	large := strings.Repeat("large ", 100_000)
	require.NoError(t, b.Put(result("s", "acked", "1")))
	require.NoError(t, b.Ack("s", "acked"))
	require.NoError(t, b.Put(result("s", "large", large)))
	require.NoError(t, b.Put(result("s", "owed", "2")))
	require.NoError(t, b.Put(result("s", "owed", "2, in its place")))
	require.NoError(t, b.Put(result("s", "read", "3")))
	for range 3 {
		b, dir = crash(t, b, dir)
		require.Equal(t, 4, b.Owed())
		state, err := b.Lookup(call("s", "running", `{"a":1}`))
		require.NoError(t, err)
		require.Equal(t, Done, state)
		_, err = b.Accept(call("s", "acked", `{"a":2}`), false)
		require.ErrorIs(t, err, protocol.ErrConflict)
	}
	require.Equal(t, "s/large/"+large, next(t, b))
	require.NoError(t, b.Ack("s", "large"))
	require.Equal(t, "s/owed/2, in its place", next(t, b))
	require.NoError(t, b.Ack("s", "owed"))
	require.Equal(t, "s/read/3", next(t, b))
	require.NoError(t, b.Ack("s", "read"))
	r := peek(t, b)
	require.Equal(t, "running", r.ToolCallID)
	require.Equal(t, protocol.ReasonOutcomeUnknown, r.Error.Reason)
	require.Equal(t, protocol.OutcomeFailed, r.Outcome)
	require.True(t, r.IsError)
	require.NoError(t, b.Ack("s", "running"))

	b, dir = crash(t, b, dir)
	require.Zero(t, b.Owed())
	for id, want := range map[string]string{"acked": "1", "large": large, "owed": "2, in its place", "read": "3"} {
		state, err := b.Accept(call("s", id, `{"a":1}`), false)
		require.NoError(t, err)
		require.Equal(t, Done, state)
		require.Equal(t, want, peek(t, b).Content[0].Text)
		require.NoError(t, b.Ack("s", id))
	}
	require.Equal(t, []string{"s"}, b.Sessions())
	b.Forget("s")
	b.work.Wait()
	require.Empty(t, bodies(t, dir), "files of results that are forgotten are removed")
	require.NoError(t, b.Close())
}

func bodies(t *testing.T, dir string) []string {
	found, err := filepath.Glob(filepath.Join(dir, "journal", "body-*"))
	require.NoError(t, err)
	return found
}

// What is kept is for nobody else to read.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	b := openIn(t, dir)
	require.NoError(t, b.Put(result("s", "c", strings.Repeat("x", 300_000))))
	require.NoError(t, b.Close())
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		info, _ := d.Info()
		require.Equal(t, want, info.Mode().Perm(), path)
		return err
	}))
}

// Whatever is done, and whenever the process is killed: the box is what the model says.
func TestModelOfRestarts(t *testing.T) {
	root := inMemory(t)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		require.NoError(t, err)
		b := openIn(t, dir)
		defer func() { require.NoError(t, b.Close()) }()
		var running, owed, acked []string // calls, oldest first
		text := map[string]string{}
		n := 0
		pick := func(list []string) string {
			if len(list) == 0 {
				t.Skip()
			}
			return rapid.SampledFrom(list).Draw(t, "call")
		}
		without := func(list []string, id string) []string {
			return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == id })
		}
		t.Repeat(map[string]func(*rapid.T){
			"accept": func(t *rapid.T) {
				n++
				id := fmt.Sprint(n)
				state, err := b.Accept(call("s", id, ""), rapid.Bool().Draw(t, "read only"))
				require.NoError(t, err)
				require.Equal(t, Fresh, state)
				running = append(running, id)
			},
			"put": func(t *rapid.T) {
				id := pick(slices.Concat(running, owed))
				n++
				text[id] = strings.Repeat(fmt.Sprint(n, " "), rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 100, 70_000}).Draw(t, "length"))
				require.NoError(t, b.Put(result("s", id, text[id])))
				if slices.Contains(running, id) {
					running, owed = without(running, id), append(owed, id)
				}
			},
			"ack": func(t *rapid.T) {
				id := pick(owed)
				require.NoError(t, b.Ack("s", id))
				owed, acked = without(owed, id), append(acked, id)
			},
			"repeat": func(t *rapid.T) {
				id := pick(acked)
				state, err := b.Accept(call("s", id, ""), false)
				require.NoError(t, err)
				require.Equal(t, Done, state)
				require.NoError(t, b.Ack("s", id))
			},
			"crash": func(t *rapid.T) {
				b, dir = crash(t, b, dir)
				for _, id := range running {
					text[id] = "" // outcome unknown
				}
				owed, running = append(owed, running...), nil
				require.ElementsMatch(t, owed, owedNow(b))
				owed = owedNow(b) // a result that took another's place is newer now
				for _, id := range owed {
					b.mu.Lock()
					r := b.load(b.calls[key{"s", id}])
					b.mu.Unlock()
					if text[id] == "" {
						require.Equal(t, protocol.ReasonOutcomeUnknown, r.Error.Reason)
					} else {
						require.True(t, text[id] == r.Content[0].Text)
					}
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, strings.Join(owed, " "), strings.Join(owedNow(b), " "))
			},
		})
	})
}

func owedNow(b *Box) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, e := range b.owed {
		list = append(list, e.call)
	}
	return list
}

// The log stays small however much goes through it, and what is needed of it is there.
func TestCompaction(t *testing.T) {
	const many = 2000
	dir := filepath.Join(t.TempDir(), "state")
	b := openIn(t, dir)
	_, err := b.Accept(call("s", "running", ""), true)
	require.NoError(t, err)
	_, err = b.Accept(call("s", "owed", ""), true)
	require.NoError(t, err)
	require.NoError(t, b.Put(result("s", "owed", "for long")))
	text := strings.Repeat("x", 20_000)
	for i := range many { // 40 MB
		id := fmt.Sprint(i)
		_, err := b.Accept(call("s", id, ""), true)
		require.NoError(t, err)
		require.NoError(t, b.Put(result("s", id, text)))
		require.NoError(t, b.Ack("s", id))
	}
	b.work.Wait()
	// What is needed twice and 1 MiB, the segment that is written, which a large batch
	// makes 16 MiB long, the spare one, and the heads of the forgotten.
	require.Less(t, sizeOf(t, dir), int64(2*keepResults*20_000+(1+16+4+1)<<20))
	b, _ = crash(t, b, dir)
	require.Equal(t, []string{"owed", "running"}, owedNow(b))
	for i := range many {
		state, err := b.Accept(call("s", fmt.Sprint(i), ""), true)
		require.NoError(t, err)
		require.Equal(t, Done, state, i)
	}
	gone := 0
	for range many + 2 {
		r := peek(t, b)
		if r.Error != nil && strings.Contains(r.Error.Message, "no longer kept") {
			gone++
		} else if r.ToolCallID != "running" && r.ToolCallID != "owed" {
			require.Equal(t, text, r.Content[0].Text)
		}
		require.NoError(t, b.Ack("s", r.ToolCallID))
	}
	require.Equal(t, many-keepResults, gone)
	require.NoError(t, b.Close())
}

func sizeOf(t *testing.T, dir string) (n int64) {
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if info, _ := d.Info(); !d.IsDir() {
			n += info.Size()
		}
		return err
	}))
	return n
}

// Files of a real journal that are cut, have bits flipped or pages zeroed, at random:
// the box opens, every record that was not hit is there, and a loss is reported.
func TestDamage(t *testing.T) {
	whole := filepath.Join(inMemory(t), "state")
	b := openIn(t, whole)
	r := rand.New(rand.NewPCG(1, 7))
	texts := map[string]string{}
	for i := range 40 {
		id := fmt.Sprint(i)
		_, err := b.Accept(call("s", id, ""), true)
		require.NoError(t, err)
		texts[id] = strings.Repeat(id+".", 1+r.IntN(5000))
		require.NoError(t, b.Put(result("s", id, texts[id])))
		if r.IntN(3) == 0 {
			require.NoError(t, b.Ack("s", id))
		}
	}
	refs := map[string]journal.Ref{}
	for id := range texts {
		refs[id] = b.calls[key{"s", id}].ref
	}
	require.NoError(t, b.Close())
	files, err := filepath.Glob(filepath.Join(whole, "journal", "journal-*.log"))
	require.NoError(t, err)
	require.Greater(t, len(files), 1)

	hits := 0
	seeds, least := uint64(10), 12
	if os.Getenv("EXECUTOR_STRESS") != "" {
		seeds, least = 200, 300
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		dir := filepath.Join(inMemory(t), "state")
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		file := files[r.IntN(len(files))]
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		from, to := damage(r, &raw)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "journal", filepath.Base(file)), raw, 0o600))

		b, err := Open(dir)
		require.NoError(t, err, seed)
		require.NotEmpty(t, b.Losses(), "seed %d: %d to %d of %s", seed, from, to, file)
		for id, ref := range refs {
			state, err := b.Lookup(call("s", id, ""))
			require.NoError(t, err)
			if ref.File() == file && ref.Overlaps(from, to) {
				hits++
			} else {
				require.Equal(t, Done, state, "seed %d, call %s", seed, id)
			}
		}
		for b.Owed() > 0 {
			got := peek(t, b)
			if got.Error == nil {
				require.Equal(t, texts[got.ToolCallID], got.Content[0].Text)
			} else {
				require.Equal(t, protocol.ReasonOutcomeUnknown, got.Error.Reason)
			}
			require.NoError(t, b.Ack("s", got.ToolCallID))
		}
		_, err = b.Accept(call("s", "new", ""), false)
		require.NoError(t, err)
		require.NoError(t, b.Put(result("s", "new", "new")))
		require.Equal(t, !b.Losses()[0].Torn, b.Wounded())
		b.Heal()
		require.NoError(t, b.Close())
		b = openIn(t, dir)
		require.Empty(t, b.Losses(), "what was damaged is set aside")
		require.Equal(t, "s/new/new", next(t, b))
		require.NoError(t, b.Close())
	}
	require.Greater(t, hits, least)
}

// inMemory is a directory where a sync costs nothing, if there is such a place.
func inMemory(t *testing.T) string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "outbox-test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// damage does one thing to the bytes of a file, and says where.
func damage(r *rand.Rand, raw *[]byte) (from, to int64) {
	b := *raw
	at := r.IntN(len(b))
	switch r.IntN(4) {
	case 0:
		*raw = b[:at]
		return int64(at), int64(len(b))
	case 1: // in the part that is written, so that it hits something
		at = r.IntN(max(1, bytes.LastIndexByte(b, '}')))
		b[at] ^= 1 << r.IntN(8)
		return int64(at), int64(at + 1)
	case 2:
		at &^= 4095
		end := min(at+4096*(1+r.IntN(4)), len(b))
		clear(b[at:end])
		return int64(at), int64(end)
	default:
		*raw = append(b, []byte("garbage at the end")...)
		return int64(len(b)), int64(len(*raw))
	}
}

// Every file cut to nothing.
func TestEmptiedFiles(t *testing.T) {
	dir := t.TempDir()
	b := openIn(t, dir)
	_, err := b.Accept(call("s", "c", ""), false)
	require.NoError(t, err)
	require.NoError(t, b.Put(result("s", "c", strings.Repeat("x", 300_000))))
	require.NoError(t, b.Close())
	entries, err := os.ReadDir(filepath.Join(dir, "journal"))
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.Truncate(filepath.Join(dir, "journal", e.Name()), 0))
	}
	b = openIn(t, dir)
	require.NotEmpty(t, b.Losses())
	require.Zero(t, b.Owed())
	state, err := b.Accept(call("s", "c", ""), false)
	require.NoError(t, err)
	require.Equal(t, Fresh, state) // nothing is left that could say otherwise
	require.NoError(t, b.Close())
}

// A result whose own file is damaged is owed as one that is not known.
func TestDamagedBody(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"gone":    os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 100) },
		"flipped": flip,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := openIn(t, dir)
			for _, id := range []string{"owed", "acked"} {
				_, err := b.Accept(call("s", id, ""), false)
				require.NoError(t, err)
				require.NoError(t, b.Put(result("s", id, strings.Repeat("x", 300_000))))
			}
			require.NoError(t, b.Ack("s", "acked"))
			require.NoError(t, b.Close())
			for _, path := range bodies(t, dir) {
				require.NoError(t, harm(path))
			}
			b = openIn(t, dir)
			require.Len(t, b.Losses(), 1)
			require.Equal(t, protocol.ReasonOutcomeUnknown, peek(t, b).Error.Reason)
			require.NoError(t, b.Ack("s", "owed"))
			state, err := b.Lookup(call("s", "acked", ""))
			require.NoError(t, err)
			require.Equal(t, Done, state)
			require.Equal(t, protocol.ReasonOutcomeUnknown, peek(t, b).Error.Reason)
			require.NoError(t, b.Close())
		})
	}
}

func flip(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[len(raw)/2] ^= 4
	return os.WriteFile(path, raw, 0o600)
}

// A result that cannot be JSON is told, not lost.
func TestResultThatCannotBeWritten(t *testing.T) {
	both(t, func(t *testing.T, open func() *Box) {
		b := open()
		r := result("s", "c", "x")
		r.Structured = json.RawMessage("{")
		require.NoError(t, b.Put(r))
		require.Equal(t, protocol.ReasonOutcomeUnknown, peek(t, b).Error.Reason)
	})
}
