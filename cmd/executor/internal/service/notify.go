package service

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifyTimeout bounds one message: the service manager's socket has no room when it
// hangs itself.
const notifyTimeout = time.Second

// Notifier tells the service manager how this program does, by systemd's protocol: lines
// NAME=value in one datagram to the socket of NOTIFY_SOCKET. Without one it does nothing.
// It may be used concurrently.
type Notifier struct {
	addr     *net.UnixAddr // nil: nobody wants to know
	watchdog time.Duration // WATCHDOG=1 is expected within; 0 = not
}

// NewNotifier reads what the service manager has set, and takes it out of the environment
// so that no child has it. An address that is none is an error, which is only to be said:
// the agent works without.
func NewNotifier(pid int) (n *Notifier, err error) {
	socket, usec, watched := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	n = &Notifier{}
	switch {
	case socket == "":
		return n, nil
	case socket[0] != '/' && socket[0] != '@' || len(socket) == 1:
		return n, fmt.Errorf("NOTIFY_SOCKET: want a path that begins with / or, for an abstract socket, with @")
	}
	n.addr = &net.UnixAddr{Name: socket, Net: "unixgram"} // package net knows what @ means
	if usec == "" || watched != "" && watched != strconv.Itoa(pid) {
		return n, nil
	}
	us, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || us <= 0 || us > int64(365*24*time.Hour/time.Microsecond) {
		return n, fmt.Errorf("WATCHDOG_USEC: want a number of microseconds above 0")
	}
	n.watchdog = time.Duration(us) * time.Microsecond
	return n, nil
}

func (n *Notifier) wanted() bool { return n.addr != nil }

// tell sends lines in one message. It does not wait for anybody.
func (n *Notifier) tell(lines ...string) error {
	if n.addr == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, n.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(notifyTimeout))
	_, err = c.Write([]byte(strings.Join(lines, "\n")))
	return err
}
