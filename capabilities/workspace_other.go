//go:build !linux

package capabilities

import (
	"io/fs"
	"os"
)

func openRegular(*os.File, string, []fs.FileInfo) (*os.File, bool) { return nil, false }

func linkless(*os.File, string, bool, []fs.FileInfo) bool { return false }
