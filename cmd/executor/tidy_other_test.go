//go:build !linux

package main

func tidy(string) {}
