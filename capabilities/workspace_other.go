//go:build !linux

package capabilities

import "os"

func openRegular(*os.File, string) (*os.File, bool) { return nil, false }

func linkless(*os.File, string, bool) bool { return false }
