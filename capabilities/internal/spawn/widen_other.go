//go:build !linux

package spawn

import "os"

// widen does nothing: the capacity of a pipe cannot be set here.
func widen(*os.File) (wide bool) { return false }
