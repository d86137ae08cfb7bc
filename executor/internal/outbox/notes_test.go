package outbox

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func noted(b *Box, scope string) map[string]string {
	all := map[string]string{}
	for name, value := range b.Notes(scope) {
		all[name] = string(value)
	}
	return all
}

// Notes are there after each kill, beside calls of the same names.
func TestNotes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	b := openIn(t, dir)
	b.Note("s#1", "a", []byte("1"))
	b.Note("s#1", "b", nil)
	b.Note("s#2", "a", []byte("other"))
	_, err := b.Accept(call("s#1", "a", ""), false)
	require.NoError(t, err)
	b.Note("s#1", "a", []byte("2"))
	b.Note("s#1", "gone", []byte("x"))
	b.ForgetNote("s#1", "gone")
	b.ForgetNote("s#1", "never there")
	for range 3 {
		b, dir = crash(t, b, dir)
		require.Equal(t, map[string]string{"a": "2", "b": ""}, noted(b, "s#1"))
		require.Equal(t, map[string]string{"a": "other"}, noted(b, "s#2"))
		require.ElementsMatch(t, []string{"s#1", "s#2"}, b.Scopes())
		state, err := b.Lookup(call("s#1", "a", ""))
		require.NoError(t, err)
		require.Equal(t, Done, state, "the call has a record of its own")
	}
	b.ForgetNotes("s#1")
	require.Equal(t, []string{"s#2"}, b.Scopes())
	require.Empty(t, b.Notes("s#1"))
	require.NoError(t, b.Close())
}

// Without a directory they are in memory.
func TestNotesInMemory(t *testing.T) {
	b := openIn(t, "")
	b.Note("s", "a", []byte("1"))
	require.Equal(t, map[string]string{"a": "1"}, noted(b, "s"))
	b.ForgetNote("s", "a")
	require.Empty(t, b.Scopes())
	require.NoError(t, b.Close())
}

// However often they change, what is on the disk stays small, and nothing is lost in
// moving it.
func TestNotesAreCompacted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	b := openIn(t, dir)
	value := make([]byte, 200)
	for i := range 15_000 {
		name := fmt.Sprint(i % 100)
		copy(value, fmt.Sprintf("%8d", i))
		b.Note("s", name, value)
		if i%3 == 0 {
			b.Note("s", "now and then", value)
			b.ForgetNote("s", "now and then")
		}
	}
	b.Note("s", "kept", []byte("from before"))
	b.work.Wait()
	var size int64
	files, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
	require.NoError(t, err)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		size += info.Size()
	}
	require.Less(t, size, int64(16<<20))
	b, _ = crash(t, b, dir)
	all := b.Notes("s")
	require.Len(t, all, 101)
	for i := range 100 {
		require.Equal(t, fmt.Sprintf("%8d", 14_900+i), string(all[fmt.Sprint(i)][:8]))
	}
	require.NoError(t, b.Close())
}

// Whatever is noted and forgotten, and whenever it is killed: what is there is what was
// noted last.
func TestNotesAgainstModel(t *testing.T) {
	root := inMemory(t)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		require.NoError(t, err)
		b := openIn(t, dir)
		model := map[string]map[string]string{}
		scope := rapid.SampledFrom([]string{"s#1", "s#2"})
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"note": func(t *rapid.T) {
				s, n, v := scope.Draw(t, "scope"), name.Draw(t, "name"), rapid.StringN(0, 20, -1).Draw(t, "value")
				b.Note(s, n, []byte(v))
				if model[s] == nil {
					model[s] = map[string]string{}
				}
				model[s][n] = v
			},
			"forget": func(t *rapid.T) {
				s, n := scope.Draw(t, "scope"), name.Draw(t, "name")
				b.ForgetNote(s, n)
				delete(model[s], n)
			},
			"call": func(t *rapid.T) {
				s, n := scope.Draw(t, "scope"), name.Draw(t, "name")
				state, err := b.Accept(call(s, n, ""), true)
				require.NoError(t, err)
				if state == Fresh {
					require.NoError(t, b.Put(result(s, n, "x")))
				}
			},
			"kill": func(t *rapid.T) { b, dir = crash(t, b, dir) },
			"": func(t *rapid.T) {
				for s, want := range model {
					require.True(t, maps.Equal(want, noted(b, s)), "%s: %v, want %v", s, noted(b, s), want)
				}
			},
		})
		require.NoError(t, b.Close())
	})
}

// A damaged note is damage like that of a call: it could be one of a start.
func TestNoteIsDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	b := openIn(t, dir)
	b.Note("s", "first", []byte("x"))
	b.Note("s", "second", []byte("y"))
	ref := b.notes["s"]["first"].ref
	require.NoError(t, b.Close())
	raw, err := os.ReadFile(ref.File())
	require.NoError(t, err)
	raw = bytes.Replace(raw, []byte("first"), []byte("fir--"), 1)
	require.NoError(t, os.WriteFile(ref.File(), raw, 0o600))
	b = openIn(t, dir)
	require.True(t, b.Wounded())
	require.Equal(t, map[string]string{"second": "y"}, noted(b, "s"))
	require.NoError(t, b.Close())
}
