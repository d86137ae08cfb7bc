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
		cred, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return
		}
		p, ok = Peer{UID: int(cred.Uid)}, true
		if pid, err := unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID); err == nil {
			p.PID = pid
		}
	})
	return p, ok
}
