package spawn

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of <sys/proc.h>

// processTable asks the kernel for all processes. Sessions are not in its answer: descendants that left
// the process group are found by marker and by parent.
func processTable() []row {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	rows := make([]row, 0, len(list))
	for i := range list {
		rows = append(rows, toRow(&list[i]))
	}
	return rows
}

func rowOf(pid int) (row, bool) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil || len(list) != 1 {
		return row{}, false
	}
	return toRow(&list[0]), true
}

func toRow(k *unix.KinfoProc) row {
	return row{
		pid:   int(k.Proc.P_pid),
		ppid:  int(k.Eproc.Ppid),
		pgid:  int(k.Eproc.Pgid),
		start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
		dead:  k.Proc.P_stat == zombie,
	}
}

// marked looks for the marker behind the arguments of the process.
func marked(pid int, marker string) bool {
	text, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(Marker+"=")); ok && bytes.Contains(value, []byte(marker)) {
			return true
		}
	}
	return false
}

func holds(int, []uint64) bool { return false }

func commandOf(pid int) string {
	text, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(text) < 4 {
		return ""
	}
	count := int(text[0]) | int(text[1])<<8 // the number of arguments; they follow the program's path
	fields := bytes.FieldsFunc(text[4:], func(r rune) bool { return r == 0 })
	if len(fields) < 1+count {
		return ""
	}
	return shorten(string(bytes.Join(fields[1:1+count], []byte{' '})))
}

func (r row) signal(sig unix.Signal) error {
	if now, ok := rowOf(r.pid); !ok || now.start != r.start {
		return errGone
	}
	return unix.Kill(r.pid, sig)
}

func scriptFile(script string) (*os.File, error) { return tempScript(script) }

func closeInheritedOnExec() {}
