package search

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// openTop opens the directory of a handle once more, for reading it. The caller closes it.
func openTop(root *os.Root) (dir, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := fdDir(-1)
	if e := raw.Control(func(fd uintptr) {
		var n int
		n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		d = fdDir(n)
	}); e != nil {
		return nil, e
	}
	return d, os.NewSyscallError("dup", err)
}

// fdDir is a directory by its descriptor: a tenth of what os.Root costs, and the kinds
// of the entries come with their names.
type fdDir int

// again calls f until it was not interrupted by a signal.
func again[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if err != unix.EINTR {
			return v, err
		}
	}
}

// Offsets in a record of getdents64.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

func (d fdDir) list(entries []entry, buf []byte) ([]entry, error) {
	for {
		n, err := again(func() (int, error) { return unix.ReadDirent(int(d), buf) })
		if err != nil || n <= 0 {
			return entries, err
		}
		names := string(buf[:n]) // one allocation for all of them
		for at := 0; at+direntName < n; {
			length := int(binary.NativeEndian.Uint16(buf[at+direntLength:]))
			if length <= direntName || at+length > n {
				return entries, unix.EIO
			}
			end := bytes.IndexByte(buf[at+direntName:at+length], 0)
			if end < 0 {
				end = length - direntName
			}
			e := entry{name: names[at+direntName : at+direntName+end]}
			switch buf[at+direntType] {
			case unix.DT_REG:
				e.kind = kindFile
			case unix.DT_DIR:
				e.kind = kindDir
			case unix.DT_LNK:
				e.kind = kindLink
			case unix.DT_UNKNOWN:
				if e.kind, _, err = d.look(e.name); err != nil {
					e.kind = kindSpecial
				}
			}
			if e.name != "." && e.name != ".." {
				entries = append(entries, e)
			}
			at += length
		}
	}
}

func (d fdDir) open(name string) (dir, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(int(d), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	})
	if err != nil {
		return nil, err
	}
	return fdDir(fd), nil
}

// file does not look what it opened: with O_NONBLOCK a FIFO that has just taken the name
// is empty, and the names of devices are not ones that grep opens.
func (d fdDir) file(name string) (io.ReadCloser, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(int(d), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return nil, err
	}
	return fdFile(fd), nil
}

func (d fdDir) look(name string) (kind, time.Time, error) {
	var s unix.Stat_t
	_, err := again(func() (struct{}, error) {
		return struct{}{}, unix.Fstatat(int(d), name, &s, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return 0, time.Time{}, err
	}
	k := kindSpecial
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		k = kindFile
	case unix.S_IFDIR:
		k = kindDir
	case unix.S_IFLNK:
		k = kindLink
	}
	return k, time.Unix(s.Mtim.Unix()), nil
}

func (d fdDir) close() { _ = unix.Close(int(d)) }

// fdFile is an open file by its descriptor.
type fdFile int

func (f fdFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := again(func() (int, error) { return unix.Read(int(f), p) })
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (f fdFile) Close() error { return unix.Close(int(f)) }
