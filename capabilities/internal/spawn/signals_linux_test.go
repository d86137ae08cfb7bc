package spawn

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Started by a script's `&`, by nohup or by a supervisor that blocks signals, the executor
// gives none of that to its commands: an interrupt ends them.
func TestSignalsOfTheLauncher(t *testing.T) {
	if os.Getenv("EXECUTOR_TEST_SIGNALS") != "" {
		for _, n := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTTIN, unix.SIGTTOU} {
			require.Contains(t, ignored(), n, "the test has to be what it is about")
		}
		g := newGroup(t)
		c := script(t, g, "grep ^Sig /proc/self/status; kill -INT $$; echo still here")
		<-c.Done()
		for _, mask := range []string{"SigBlk", "SigIgn"} { // the lowest 31 of 64
			assert.Regexp(t, mask+`:\t[0-9a-f]{8}[08]0{7}\n`, c.out.String())
		}
		assert.NotContains(t, c.out.String(), "still here")
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	blocked := unix.Sigset_t{Val: [16]uint64{1<<(unix.SIGINT-1) | 1<<(unix.SIGUSR1-1)}}
	require.NoError(t, unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before))
	defer func() { require.NoError(t, unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)) }()
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP INT TTIN TTOU; exec "$0" -test.run "^TestSignalsOfTheLauncher$" -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), "EXECUTOR_TEST_SIGNALS=1")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, strings.TrimSpace(string(text)))
}
