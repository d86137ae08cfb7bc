package statefile

import (
	"errors"
	"os"
	"path/filepath"
)

// replace makes content the content of the file, whole or not at all: when it returns
// without an error, file and directory entry are on the disk.
func replace(path string, content []byte) error {
	temp := path + tempSuffix
	_ = os.Remove(temp)                                                   // of an attempt that failed
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // through no link
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // a full disk needs the room
		return err
	}
	return syncDir(filepath.Dir(path))
}
