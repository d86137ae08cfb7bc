//go:build !linux

package main

// forgetProgram does nothing here.
func forgetProgram() {}
