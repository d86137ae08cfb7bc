//go:build !linux

package cli

// KeepPrivate does nothing here.
func KeepPrivate() error { return nil }
