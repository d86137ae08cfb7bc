//go:build !linux

package spawn

import (
	"errors"
	"syscall"
)

// cgroup is not there on this system: it is always nil.
type cgroup struct{ path string }

func ownCgroup() (string, error) { return "", errors.New("this system has no control groups") }

func newCgroup(_, _ string) (*cgroup, error) { return nil, errors.ErrUnsupported }

func tryCgroup(*cgroup) error { return errors.ErrUnsupported }

func (c *cgroup) use(*syscall.SysProcAttr) {}

func (c *cgroup) pids() map[int]bool { return nil }

func (c *cgroup) kill() {}

func (c *cgroup) remove() {}
