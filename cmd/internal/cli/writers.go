package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ChangedByOthers says why others than this user and root can change a file that is
// read, by its mode, its owner or those of its directory, and what to run against it; ""
// when nobody can, or it is not there. With anybody it is more than its group.
func ChangedByOthers(path string) (why, remedy string, anybody bool) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" {
		return "", "", false
	}
	mode := info.Mode().Perm()
	if who := foreignOwner(info); who != "" {
		return fmt.Sprintf("belongs to %s, who can change it", who), fmt.Sprintf("chown %d %s", os.Geteuid(), path), true
	}
	if mode&0o002 != 0 {
		return fmt.Sprintf("has mode %04o, so that everybody can change it", mode), "chmod go-w " + path, true
	}
	dir := filepath.Dir(path)
	if d, err := os.Stat(dir); err == nil && d.Mode().Perm()&0o002 != 0 && d.Mode()&os.ModeSticky == 0 {
		return fmt.Sprintf("is in %s, of mode %04o, where everybody can replace it", dir, d.Mode().Perm()), "chmod go-w " + dir, true
	}
	if mode&0o020 != 0 {
		return fmt.Sprintf("has mode %04o, so that its group can change it", mode), "chmod g-w " + path, false
	}
	return "", "", false
}
