//go:build !linux

package atomicfile

import "os"

func renameNew(dir *os.Root, _ *os.File, from, to string) error { return linkNew(dir, from, to) }

func reserve(*os.File, int64) error { return nil }
