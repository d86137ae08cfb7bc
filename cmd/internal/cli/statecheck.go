package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckStateDir says why a program could not keep its state in a directory; nil when it
// could. It makes nothing: of a directory that is not there, the first above it that is
// has to be one in which it can be made.
func CheckStateDir(dir, program string) error {
	if dir == "" {
		return NoStateDir(program)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for at := abs; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		switch {
		case errors.Is(err, syscall.ENOTDIR):
			continue // the file above is found
		case err != nil:
			return fmt.Errorf("%w; name another with --state-dir", err)
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory; name another with --state-dir", at)
		}
		if kind := systemOwn(at); kind != "" {
			return fmt.Errorf("%s cannot be a state directory: %s is the system's own (%s), and keeps no files; name another with --state-dir", abs, at, kind)
		}
		if err := MayChange(at); err != nil {
			what := "this user cannot write in it"
			if errors.Is(err, syscall.EROFS) {
				what = "its file system can only be read"
			}
			if at != abs {
				return fmt.Errorf("%s cannot be made in %s: %s; name another with --state-dir", abs, at, what)
			}
			return fmt.Errorf("%s: %s; run: chown %d %s, or name another with --state-dir", at, what, os.Geteuid(), at)
		}
		return nil
	}
}
