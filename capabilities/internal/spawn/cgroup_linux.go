package spawn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a control group of the second version's hierarchy, made for children. It holds them and
// all their descendants, whatever those do, and ends them at once. A nil cgroup holds nothing.
type cgroup struct {
	path string
	dir  *os.File // to start children in
}

// ownCgroup is the directory of the control group that this process is in.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own := ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	if own == "" {
		return "", errors.New("no control groups of the second version")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	// 40 30 0:37 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw: the fourth is what of the hierarchy is seen there.
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		rel, err := filepath.Rel(fields[3], own)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(fields[4], rel), nil
	}
	return "", errors.New("the hierarchy of control groups is not mounted")
}

// newCgroup makes a control group below another. One that is there already is used on.
func newCgroup(parent, name string) (*cgroup, error) {
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// Without it a group cannot be ended at once, and is not worth having (before Linux 5.14).
	if err := unix.Access(filepath.Join(path, "cgroup.kill"), unix.W_OK); err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("%s/cgroup.kill: %w", path, err)
	}
	dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	return &cgroup{path: path, dir: dir}, nil
}

// use makes the child start in the group.
func (c *cgroup) use(attr *syscall.SysProcAttr) {
	if c != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.dir.Fd())
	}
}

// add takes in a process. One that cannot be taken in is known by other means.
func (c *cgroup) add(pid int) {
	if c == nil {
		return
	}
	if f, err := os.OpenFile(filepath.Join(c.path, "cgroup.procs"), os.O_WRONLY, 0); err == nil {
		_, _ = f.WriteString(strconv.Itoa(pid))
		_ = f.Close()
	}
}

// pids are the processes in the group and those below it. A nil group has none.
func (c *cgroup) pids() map[int]bool {
	if c == nil {
		return nil
	}
	pids := map[int]bool{}
	c.walk(func(dir string) {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for line := range strings.Lines(string(text)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
				pids[pid] = true
			}
		}
	})
	return pids
}

// kill sends SIGKILL to all that is in the group, now and while it does so.
func (c *cgroup) kill() {
	if c == nil {
		return
	}
	if f, err := os.OpenFile(filepath.Join(c.path, "cgroup.kill"), os.O_WRONLY, 0); err == nil {
		_, _ = f.WriteString("1")
		_ = f.Close()
	}
}

// remove gives the group up. It goes unless something is left in it that could not be ended.
func (c *cgroup) remove() {
	if c == nil {
		return
	}
	poll(100*time.Millisecond, func() bool { // the last one may be on its way out
		var dirs []string
		c.walk(func(dir string) { dirs = append(dirs, dir) })
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = unix.Rmdir(dirs[i])
		}
		_, err := os.Lstat(c.path)
		return err != nil
	})
	_ = c.dir.Close()
}

// walk calls f for the group and those below it, parents first.
func (c *cgroup) walk(f func(dir string)) {
	_ = filepath.WalkDir(c.path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			f(path)
		}
		return nil // one that has gone meanwhile is skipped
	})
}

// tryCgroup starts a program in the group, since there are many reasons why that may be refused.
func tryCgroup(c *cgroup) error {
	attr := &syscall.SysProcAttr{Setsid: true}
	c.use(attr)
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{Sys: attr, Env: []string{}})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no such shell, which says nothing
	}
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}
