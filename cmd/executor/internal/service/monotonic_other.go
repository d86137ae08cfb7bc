//go:build !linux

package service

// monotonicNow is asked for by systemd alone.
func monotonicNow() int64 { return 0 }
