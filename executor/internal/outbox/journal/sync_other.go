//go:build !linux

package journal

import (
	"os"
	"runtime"
)

func syncData(f *os.File) error { return f.Sync() }

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // the system has no such thing
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
