package cli

import (
	"net"

	"golang.org/x/sys/unix"
)

func peerOf(c *net.UnixConn) (p Peer, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return p, false
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p, ok = Peer{UID: int(cred.Uid), PID: int(cred.Pid)}, true
		}
	})
	return p, ok
}
