package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData brings the bytes of a file to the disk. Its size does not change, so the
// metadata need not go with them.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// syncDir brings the names in a directory to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
