//go:build !linux

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

func openNameless(*os.File, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func giveName(*os.File, *os.File, string) error { return errors.ErrUnsupported }

func renameNew(dir *os.Root, _ *os.File, from, to string) error { return linkNew(dir, from, to) }

func reserve(*os.File, int64) error { return nil }
