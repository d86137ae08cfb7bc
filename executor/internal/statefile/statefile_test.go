package statefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample is a state with everything in it; n tells two apart.
func sample(n int) State {
	return State{
		ExecutorID: "exe", ConnectionID: fmt.Sprint("con", n),
		Sessions: []Session{
			{Assign: protocol.SessionAssignParams{SessionID: "s1", WorkID: "w", Lease: protocol.Lease{Token: "t", FencingToken: 1 << 60},
				Metadata:   map[string]string{"a": "<b> \u2028 é \x00", "quote": `","sha256":"`},
				Resources:  []protocol.Resource{{Type: "r", Data: json.RawMessage(`{"x":[1,2]}`)}},
				MCPServers: []protocol.MCPServer{{ServerKey: "k", Transport: protocol.MCPTransport{Env: map[string]string{"K": "v"}}}}},
				Dir: "/work", Ready: true},
			{Assign: protocol.SessionAssignParams{SessionID: "s2", WorkID: "w"}, Ending: true, EndReason: "stopped"},
		},
		Fences: []Fence{{"old", 7}, {"older", 3}},
		Ends:   []protocol.SessionEndedParams{{SessionID: "old", Reason: "stopped"}},
	}
}

func open(t require.TestingT, dir string) (*File, State, []Damage) {
	f, s, damage, err := Open(dir)
	require.NoError(t, err)
	return f, s, damage
}

// written is a directory with sample(1) in it, and an older one before it.
func written(t require.TestingT, dir string) {
	f, s, damage := open(t, dir)
	require.Empty(t, s)
	require.Empty(t, damage)
	for n := range 2 {
		require.NoError(t, f.Write(sample(n)))
		require.NoError(t, f.Mirror())
	}
}

func names(t *testing.T, dir string) (list []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWrittenAndRead(t *testing.T) {
	dir := t.TempDir()
	written(t, dir)
	_, s, damage := open(t, dir)
	require.Equal(t, sample(1), s)
	require.Empty(t, damage)
	require.Equal(t, []string{secondCopy, firstCopy}, names(t, dir))
	for _, name := range names(t, dir) {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, json.Valid(raw))
		if info, err := os.Stat(filepath.Join(dir, name)); runtime.GOOS != "windows" {
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		}
	}
}

// damages are what a crash, a disk or a person does to a file.
var damages = map[string]func(raw []byte) []byte{
	"emptied":     func([]byte) []byte { return nil },
	"cut":         func(raw []byte) []byte { return raw[:len(raw)/2] },
	"cut by one":  func(raw []byte) []byte { return raw[:len(raw)-2] },
	"zeroes":      func(raw []byte) []byte { return make([]byte, len(raw)) },
	"zero end":    func(raw []byte) []byte { return append(raw[:len(raw)/2:len(raw)/2], make([]byte, 300)...) },
	"a bit":       func(raw []byte) []byte { raw[len(raw)/3] ^= 4; return raw },
	"format bit":  func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"format":1`), []byte(`"format":3`), 1) },
	"a digit":     func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"token":7`), []byte(`"token":6`), 1) },
	"the sum":     func(raw []byte) []byte { raw[len(raw)-5] ^= 1; return raw },
	"another":     func([]byte) []byte { return []byte(`{"executor_id":"x"}`) },
	"text":        func([]byte) []byte { return []byte("not JSON\n") },
	"an array":    func([]byte) []byte { return []byte("[]") },
	"nested":      func([]byte) []byte { return bytes.Repeat([]byte("["), 1<<20) },
	"no checksum": func([]byte) []byte { return []byte(`{"format":1,"generation":99,"state":{}}`) },
}

// A damaged copy loses nothing while the other one is whole; it is set aside, told of,
// and written anew.
func TestOneCopyIsDamaged(t *testing.T) {
	for what, damage := range damages {
		for _, name := range []string{firstCopy, secondCopy} {
			dir := t.TempDir()
			written(t, dir)
			file := filepath.Join(dir, name)
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			raw = damage(raw)
			require.NoError(t, os.WriteFile(file, raw, 0o600))
			_, s, told := open(t, dir)
			require.Equal(t, sample(1), s, what)
			require.Len(t, told, 1, what)
			require.Equal(t, file, told[0].File)
			require.Error(t, told[0].Problem)
			kept, err := os.ReadFile(told[0].Aside)
			require.NoError(t, err)
			require.True(t, bytes.Equal(raw, kept))

			require.NoError(t, os.Remove(filepath.Join(dir, map[string]string{firstCopy: secondCopy, secondCopy: firstCopy}[name])))
			_, s, told = open(t, dir)
			require.Equal(t, sample(1), s, what)
			require.Empty(t, told)
		}
	}
}

func TestBothCopiesAreDamaged(t *testing.T) {
	for what, damage := range damages {
		dir := t.TempDir()
		written(t, dir)
		for _, name := range []string{firstCopy, secondCopy} {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), damage(raw), 0o600))
		}
		f, s, told := open(t, dir)
		require.Empty(t, s, what)
		require.Len(t, told, 2)
		require.Equal(t, []string{secondCopy + damagedSuffix, firstCopy + damagedSuffix}, names(t, dir))
		require.NoError(t, f.Write(sample(5)))
		_, s, told = open(t, dir)
		require.Equal(t, sample(5), s)
		require.Empty(t, told)
	}
}

// What stands behind the end of both copies costs nothing.
func TestGarbageBehindTheEnd(t *testing.T) {
	for _, garbage := range []string{"garbage", "\x00\x00\x00", "}", `{"format":9}`} {
		dir := t.TempDir()
		written(t, dir)
		for _, name := range []string{firstCopy, secondCopy} {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.WriteString(garbage)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		_, s, told := open(t, dir)
		require.Equal(t, sample(1), s, garbage)
		require.Len(t, told, 2)
		_, s, told = open(t, dir)
		require.Equal(t, sample(1), s, garbage)
		require.Empty(t, told)
	}
}

// Every bit and every length of a copy.
func TestNoDamageGoesUnnoticed(t *testing.T) {
	raw, err := encode(3, sample(1))
	require.NoError(t, err)
	for i := range 8 * (len(raw) - 1) { // the last byte is a line end
		bad := bytes.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		c, err := decode(bad)
		require.Error(t, err, i)
		require.NotErrorIs(t, err, ErrNewer)
		require.Nil(t, c.whole, i)
	}
	for n := range len(raw) - 1 {
		_, err := decode(raw[:n])
		require.Error(t, err, n)
	}
}

// A crash between the two copies, or while one is being written.
func TestCrashWhileWriting(t *testing.T) {
	dir := t.TempDir()
	written(t, dir)
	f, _, _ := open(t, dir)
	require.NoError(t, f.Write(sample(2))) // and no Mirror
	for _, name := range []string{firstCopy, secondCopy} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+tempSuffix), []byte("half"), 0o600))
	}
	_, s, damage := open(t, dir)
	require.Equal(t, sample(2), s)
	require.Empty(t, damage)
	require.Equal(t, []string{secondCopy, firstCopy}, names(t, dir))
	require.NoError(t, os.Remove(filepath.Join(dir, firstCopy))) // the copy was brought up
	_, s, _ = open(t, dir)
	require.Equal(t, sample(2), s)
}

// A write that fails leaves what was there, and the next one works.
func TestDiskTakesNothing(t *testing.T) {
	dir := t.TempDir()
	written(t, dir)
	f, _, _ := open(t, dir)
	for _, name := range []string{firstCopy, secondCopy} { // in the way
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name+tempSuffix, "x"), 0o700))
	}
	require.Error(t, f.Write(sample(2)))
	_, s, damage := open(t, dir)
	require.Equal(t, sample(1), s)
	require.Empty(t, damage)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, firstCopy+tempSuffix)))
	require.NoError(t, f.Write(sample(3)))
	require.Error(t, f.Mirror())
	_, s, _ = open(t, dir)
	require.Equal(t, sample(3), s)
}

// A newer version's state is not touched, whatever the other copy is.
func TestNewerFormat(t *testing.T) {
	for what, other := range map[string]string{"none": "", "damaged": "{", "older": "older"} {
		dir := t.TempDir()
		written(t, dir)
		raw, err := encode(9, sample(1))
		require.NoError(t, err)
		body := strings.Replace(string(raw[:len(raw)-tailBytes-1]), `"format":1`, `"format":2`, 1)
		raw = seal([]byte(body))
		require.NoError(t, os.WriteFile(filepath.Join(dir, secondCopy), raw, 0o600))
		switch other {
		case "":
			require.NoError(t, os.Remove(filepath.Join(dir, firstCopy)))
		case "{":
			require.NoError(t, os.WriteFile(filepath.Join(dir, firstCopy), []byte(other), 0o600))
		}
		before := names(t, dir)
		_, _, _, err = Open(dir)
		require.ErrorIs(t, err, ErrNewer, what)
		require.ErrorContains(t, err, filepath.Join(dir, secondCopy))
		require.ErrorContains(t, err, "another state directory")
		require.Equal(t, before, names(t, dir))
		kept, err := os.ReadFile(filepath.Join(dir, secondCopy))
		require.NoError(t, err)
		require.Equal(t, raw, kept)
	}
}

// What is no file, where a copy should be, is set aside, and the other copy counts.
func TestNotAFile(t *testing.T) {
	for _, name := range []string{firstCopy, secondCopy} {
		for what, put := range map[string]func(path string) error{
			"directory": func(path string) error { return os.Mkdir(path, 0o700) },
			"symlink":   func(path string) error { return os.Symlink("elsewhere", path) },
		} {
			dir := t.TempDir()
			written(t, dir)
			file := filepath.Join(dir, name)
			require.NoError(t, os.Rename(file, filepath.Join(dir, "elsewhere")))
			require.NoError(t, put(file))
			f, s, damage := open(t, dir)
			require.Equal(t, sample(1), s, what)
			require.Len(t, damage, 1)
			require.ErrorIs(t, damage[0].Problem, errNotRegular)
			require.Equal(t, file+damagedSuffix, damage[0].Aside)
			require.NoError(t, f.Write(sample(2)))
			require.NoError(t, f.Mirror())
			require.FileExists(t, filepath.Join(dir, "elsewhere"))
			_, s, damage = open(t, dir)
			require.Equal(t, sample(2), s)
			require.Empty(t, damage)
		}
	}
}

// Only the newest damaged file is kept.
func TestDamagedFilesDoNotPileUp(t *testing.T) {
	dir := t.TempDir()
	written(t, dir)
	for i := range 20 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, firstCopy), []byte(fmt.Sprint("bad ", i)), 0o600))
		_, s, _ := open(t, dir)
		require.Equal(t, sample(1), s)
	}
	require.Len(t, names(t, dir), 3)
	raw, err := os.ReadFile(filepath.Join(dir, firstCopy+damagedSuffix))
	require.NoError(t, err)
	require.Equal(t, "bad 19", string(raw))
}

// Whatever is in the two files, Open starts, and a state that was written then is read.
func FuzzOpen(f *testing.F) {
	raw, err := encode(3, sample(1))
	require.NoError(f, err)
	f.Add(raw, raw[:20])
	f.Add([]byte(`{"format":1,"generation":18446744073709551615}`), []byte(nil))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, firstCopy), first, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, secondCopy), second, 0o600))
		file, _, _ := open(t, dir)
		want := sample(rand.IntN(100))
		require.NoError(t, file.Write(want))
		require.NoError(t, file.Mirror())
		_, got, damage := open(t, dir)
		require.Equal(t, want, got)
		require.Empty(t, damage)
	})
}
