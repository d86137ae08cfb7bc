//go:build linux

package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func stat(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t)
}

// A new inode has everything but the content of the old one.
func TestReplaceKeepsWhatIsNotContent(t *testing.T) {
	path, dir := newDir(t)
	file := filepath.Join(path, "run.sh")
	for _, mode := range []fs.FileMode{0o755, 0o600, 0o666, 0o644 | fs.ModeSetgid, 0o755 | fs.ModeSetuid, 0o440} {
		require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
		require.NoError(t, os.Chmod(file, mode))
		extended := unix.Setxattr(file, "user.note", []byte("keep me"), 0) == nil
		if os.Getuid() == 0 {
			require.NoError(t, os.Lchown(file, 65534, 65533))
			require.NoError(t, os.Chmod(file, mode))
		} else if mode&0o200 == 0 {
			continue
		}
		before := stat(t, file)
		got, err := Write(dir, "run.sh", []byte("new"), Options{})
		require.NoError(t, err)
		after := stat(t, file)
		assert.Equal(t, Result{Changed: true}, got)
		assert.NotEqual(t, before.Ino, after.Ino)
		assert.Equal(t, before.Mode, after.Mode, "%v", mode)
		assert.Equal(t, [2]uint32{before.Uid, before.Gid}, [2]uint32{after.Uid, after.Gid})
		if extended {
			buf := make([]byte, 20)
			n, err := unix.Getxattr(file, "user.note", buf)
			require.NoError(t, err)
			assert.Equal(t, "keep me", string(buf[:n]))
		}
		require.NoError(t, os.Remove(file))
	}
}

// A new file gets its mode as every program's new files do.
func TestNewFileHasTheUsualMode(t *testing.T) {
	path, dir := newDir(t)
	mask := syscall.Umask(0o027)
	defer syscall.Umask(mask)
	_, err := Write(dir, "f", nil, Options{})
	require.NoError(t, err)
	assert.EqualValues(t, 0o640, stat(t, filepath.Join(path, "f")).Mode&0o7777)
	_, err = Write(dir, "x", nil, Options{Perm: 0o755})
	require.NoError(t, err)
	assert.EqualValues(t, 0o750, stat(t, filepath.Join(path, "x")).Mode&0o7777)
}

// Case 61: both names of a hard-linked file have the new content.
func TestHardLinkKeepsItsInode(t *testing.T) {
	path, dir := newDir(t)
	a, b := filepath.Join(path, "a"), filepath.Join(path, "b")
	require.NoError(t, os.WriteFile(a, []byte("old"), 0o600))
	require.NoError(t, os.Chmod(a, 0o755|fs.ModeSetuid))
	require.NoError(t, os.Link(a, b))
	before := stat(t, a)
	for _, text := range []string{strings.Repeat("longer ", 5000), "short", ""} {
		got, err := Write(dir, "a", []byte(text), Options{})
		require.NoError(t, err)
		assert.Equal(t, Result{Changed: true, InPlace: true}, got)
		assert.Equal(t, text, content(t, a))
		assert.Equal(t, text, content(t, b))
	}
	assert.Equal(t, before.Ino, stat(t, a).Ino)
	assert.Equal(t, before.Mode, stat(t, a).Mode)
	assert.Equal(t, []string{"a", "b"}, names(t, path))
}

func TestFIFOIsRefusedAtOnce(t *testing.T) {
	path, dir := newDir(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(path, "p"), 0o644))
	_, err := Write(dir, "p", []byte("new"), Options{})
	require.ErrorIs(t, err, ErrNotRegular)
	assert.Equal(t, []string{"p"}, names(t, path))
}

// smallDisk returns a directory in which files can grow to about size bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=1m"); err == nil {
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(path, syscall.MNT_DETACH)) })
		filler, err := os.Create(filepath.Join(path, "filler"))
		require.NoError(t, err)
		defer filler.Close()
		_, err = filler.Write(make([]byte, 1<<20-size))
		require.NoError(t, err)
		return path
	}
	// Not allowed to mount: a limit on the size of files gives EFBIG in its place.
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(unix.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(unix.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(size), Max: was.Max}))
	t.Cleanup(func() {
		require.NoError(t, syscall.Setrlimit(unix.RLIMIT_FSIZE, &was))
		signal.Reset(syscall.SIGXFSZ)
	})
	require.NoError(t, os.WriteFile(filepath.Join(path, "filler"), nil, 0o600))
	return path
}

// Case 66: a full disk costs the change, never the old content.
func TestDiskFull(t *testing.T) {
	path := smallDisk(t, 64<<10)
	dir := openDir(t, path)
	old := strings.Repeat("old", 4000)
	for _, name := range []string{"f", "linked"} {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte(old), 0o600))
	}
	require.NoError(t, os.Link(filepath.Join(path, "linked"), filepath.Join(path, "too")))
	for _, name := range []string{"f", "linked", "new"} {
		got, err := Write(dir, name, make([]byte, 100<<10), Options{})
		require.Error(t, err, name)
		assert.True(t, isFull(err), "%s: %v", name, err)
		assert.Equal(t, Result{}, got)
	}
	assert.Equal(t, old, content(t, filepath.Join(path, "f")))
	assert.Equal(t, old, content(t, filepath.Join(path, "linked")))
	assert.Equal(t, []string{"f", "filler", "linked", "too"}, names(t, path), "no litter")
}

func isFull(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EFBIG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// asNobody runs f with the file rights of an ordinary user. The rights belong to
// the thread, which ends with the goroutine.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		syscall.RawSyscall(syscall.SYS_SETFSGID, 65534, 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
		f()
	}()
	<-done
}

// Where a new inode would lose something, or cannot be made, the old one is used.
func TestInPlaceForAnotherUser(t *testing.T) {
	for _, c := range []struct {
		name     string
		dir, mod fs.FileMode
		uid      int
		want     Result
		err      error
	}{
		{"somebody else's file", 0o777, 0o666, 65533, Result{Changed: true, InPlace: true}, nil},
		{"directory that cannot be written", 0o755, 0o644, 65534, Result{Changed: true, InPlace: true}, nil},
		{"sticky directory", 0o777 | fs.ModeSticky, 0o666, 65533, Result{Changed: true, InPlace: true}, nil},
		{"own file", 0o777, 0o644, 65534, Result{Changed: true}, nil},
		{"own file, unreadable", 0o777, 0o200, 65534, Result{Changed: true}, nil},
		{"own file, write-protected", 0o777, 0o444, 65534, Result{}, fs.ErrPermission},
		{"somebody else's, not writable", 0o777, 0o644, 65533, Result{}, fs.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			if os.Getuid() != 0 && c.uid != 65534 {
				return
			}
			path, dir := newDir(t)
			file := filepath.Join(path, "f")
			require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
			if os.Getuid() == 0 {
				require.NoError(t, os.Chown(file, c.uid, c.uid))
			} else if c.dir == 0o755 {
				c.dir &^= 0o200 // it is our own directory
			}
			require.NoError(t, os.Chmod(file, c.mod))
			require.NoError(t, os.Chmod(path, c.dir))
			defer os.Chmod(path, 0o755)
			before := stat(t, file)
			var got Result
			var err error
			asNobody(t, func() { got, err = Write(dir, "f", []byte("new"), Options{}) })
			assert.Equal(t, c.want, got)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			after := stat(t, file)
			assert.Equal(t, before.Mode, after.Mode)
			assert.Equal(t, before.Uid, after.Uid)
			assert.Equal(t, []string{"f"}, names(t, path))
			require.NoError(t, os.Chmod(file, 0o600))
			assert.Equal(t, "new", content(t, file))
		})
	}
}

// A single file mounted into a container cannot be renamed over.
func TestMountPointIsWrittenInPlace(t *testing.T) {
	path, dir := newDir(t)
	file, other := filepath.Join(path, "f"), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.WriteFile(other, []byte("old"), 0o644))
	if err := syscall.Mount(other, file, "", syscall.MS_BIND, ""); err != nil {
		t.Logf("no right to mount: %v", err)
		return
	}
	defer syscall.Unmount(file, syscall.MNT_DETACH)
	got, err := Write(dir, "f", []byte("new"), Options{})
	require.NoError(t, err)
	assert.Equal(t, Result{Changed: true, InPlace: true}, got)
	assert.Equal(t, "new", content(t, other))
	assert.Equal(t, []string{"f"}, names(t, path))
}

// When writing in place fails halfway, the old content comes back.
func TestSetContentCanBeUndone(t *testing.T) {
	path, dir := newDir(t)
	old := strings.Repeat("old", 1000)
	require.NoError(t, os.WriteFile(filepath.Join(path, "f"), []byte(old), 0o644))
	f, err := dir.OpenFile("f", os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	handle, err := dir.Open(".")
	require.NoError(t, err)
	defer handle.Close()
	w := &writer{dir: dir, handle: handle, name: "f"}
	copied, err := w.save(f, int64(len(old)))
	require.NoError(t, err)
	defer copied.discard()

	require.ErrorIs(t, setContent(f, &breaks{}), io.ErrUnexpectedEOF)
	assert.NotEqual(t, old, content(t, filepath.Join(path, "f")))
	require.NoError(t, setContent(f, copied.content))
	assert.Equal(t, old, content(t, filepath.Join(path, "f")))
}

// breaks gives a few bytes and then an error.
type breaks struct{ given bool }

func (b *breaks) Seek(int64, int) (int64, error) { return 0, nil }

func (b *breaks) Read(p []byte) (int, error) {
	if b.given {
		return 0, io.ErrUnexpectedEOF
	}
	b.given = true
	return copy(p, "new"), nil
}
