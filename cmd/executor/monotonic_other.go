//go:build !linux

package main

// monotonicNow is asked for by systemd alone.
func monotonicNow() int64 { return 0 }
