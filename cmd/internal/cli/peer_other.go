//go:build !linux && !darwin

package cli

import "net"

// peerOf is not known here; the socket's directory is the user's own.
func peerOf(*net.UnixConn) (Peer, bool) { return Peer{}, false }

func peerLeft(*net.UnixConn) bool { return false }
