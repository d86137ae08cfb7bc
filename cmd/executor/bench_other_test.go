//go:build !unix

package main

func playRole(string) {}
