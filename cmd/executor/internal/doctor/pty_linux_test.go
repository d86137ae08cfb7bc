package doctor

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const withoutDevices = "DOCTOR_TEST_WITHOUT_DEVICES"

// Where there are no terminals it is said, with what to do about it.
func TestNoPTY(t *testing.T) {
	if os.Getenv(withoutDevices) != "" {
		require.NoError(t, syscall.Mount("none", "/dev", "tmpfs", 0, ""))
		require.NoError(t, json.NewEncoder(os.Stdout).Encode(PTY(t.Context())))
		return
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestNoPTY$")
	c.Env = append(os.Environ(), withoutDevices+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}}
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	if err := c.Start(); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	var r Result
	decoded := json.NewDecoder(out).Decode(&r)
	if err := c.Wait(); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	require.NoError(t, decoded)
	assert.Equal(t, Fail, r.Status)
	assert.Contains(t, r.Text, "no terminal can be made: open /dev/ptmx: no such file or directory")
	assert.Contains(t, r.Remedy, "mount -t devpts devpts /dev/pts")
}
