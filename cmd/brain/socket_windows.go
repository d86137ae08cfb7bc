package main

import "net"

// listenPrivate makes a socket in a directory that is the user's own.
func listenPrivate(path string) (net.Listener, error) { return net.Listen("unix", path) }
