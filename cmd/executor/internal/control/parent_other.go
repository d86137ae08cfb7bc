//go:build !linux

package control

// parentOf is not known here.
func parentOf(int) (int, parentage) { return 0, parentUnknown }
