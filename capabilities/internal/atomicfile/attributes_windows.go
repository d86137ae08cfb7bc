package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

const nonblock = 0

// attributes are what a new file needs to stand in for an old one. A new file
// takes its access list from the directory here.
type attributes struct {
	info  fs.FileInfo
	links uint64
}

func readAttributes(f *os.File, info fs.FileInfo) (*attributes, error) {
	a := &attributes{info: info, links: 1}
	var by syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &by); err == nil {
		a.links = uint64(by.NumberOfLinks)
	}
	return a, nil
}

func (a *attributes) apply(*os.File) error { return nil }

func fileMode(info fs.FileInfo) fs.FileMode { return info.Mode() & fs.ModePerm }

func writable(_ *os.File, _ string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o200 == 0 {
		return fs.ErrPermission
	}
	return nil
}

func isMountPoint(error) bool { return false }

// syncDir does nothing: directories cannot be synced here.
func syncDir(*os.File) error { return nil }
