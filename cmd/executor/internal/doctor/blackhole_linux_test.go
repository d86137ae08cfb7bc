package doctor

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A brain whose machine swallows everything: a listener whose queue is full answers as
// little as a firewall that drops.
func TestBlackHole(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 16 { // until one is not taken any more
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			break
		}
		defer c.Close()
	}
	reports := map[string]Report{}
	began := time.Now()
	for _, r := range Run(t.Context(), at(t, "wss://"+addr+"/").Checks(), 500*time.Millisecond) {
		reports[r.Name] = r
	}
	assert.Less(t, time.Since(began), 5*time.Second)
	wants(t, reports, TCP, Fail, "no answer from "+addr, "look for a firewall between")
	assert.Equal(t, "not looked at, since TCP failed", reports[Registration].Text)
}
