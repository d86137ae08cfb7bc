//go:build !linux

package main

// watchWoken is for systems that say when they have woken.
func watchWoken([]*agent) (stop func()) { return func() {} }
