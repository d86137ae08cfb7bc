//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// endWithChildren gives a command a process group of its own, which is ended as a whole
// when its context is. It then also gets no Ctrl-C that is meant for the executor.
func endWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
