//go:build unix && !linux && !darwin

package spawn

import (
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processTable asks ps, the one way all systems share. It has no exact start times: descendants are
// found by process group and by parent.
func processTable() []row {
	text, err := exec.Command("ps", "-ax", "-o", "pid=,ppid=,pgid=,state=").Output()
	if err != nil {
		return nil
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		var r row
		r.pid, _ = strconv.Atoi(f[0])
		r.ppid, _ = strconv.Atoi(f[1])
		r.pgid, _ = strconv.Atoi(f[2])
		r.dead = strings.HasPrefix(f[3], "Z")
		rows = append(rows, r)
	}
	return rows
}

func rowOf(pid int) (row, bool) { return row{pid: pid}, unix.Kill(pid, 0) == nil }

func marked(int, string) bool { return false }

func holds(int, []uint64) bool { return false }

func commandOf(pid int) string {
	text, _ := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return shorten(string(text))
}

func (r row) signal(sig unix.Signal) error { return unix.Kill(r.pid, sig) }

func scriptFile(script string) (*os.File, error) { return tempScript(script) }

func closeInheritedOnExec() {}
