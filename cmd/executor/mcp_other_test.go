//go:build !unix

package main

func playMCPTools() {}
