//go:build !linux

package host

// WatchWoken is for systems that say when they have woken.
func WatchWoken(int) (woken []<-chan struct{}, stop func()) { return nil, func() {} }
