//go:build !linux

package main

// parentOf is not known here.
func parentOf(int) (int, parentage) { return 0, parentUnknown }
