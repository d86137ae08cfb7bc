//go:build !linux

package host

// forgetProgram does nothing here.
func forgetProgram() {}
