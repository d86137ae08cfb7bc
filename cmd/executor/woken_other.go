//go:build !linux

package main

// watchWoken is for systems that say when they have woken.
func watchWoken(int) (woken []<-chan struct{}, stop func()) { return nil, func() {} }
