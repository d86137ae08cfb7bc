package spawn

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const fionread = unix.TIOCINQ

// processTable reads /proc. Where that is not mounted it is empty: then only the child itself is ended.
func processTable() []row {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	rows := make([]row, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if r, ok := rowOf(pid); ok {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// rowOf reads /proc/PID/stat.
func rowOf(pid int) (row, bool) {
	var buf [1024]byte
	text := readProc(buf[:], pid, "stat")
	// The second field is the program's name in parentheses and may hold anything, also parentheses.
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return row{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 {
		return row{}, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(fields[i]))
		return n
	}
	start, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	// A first thread that has ended is a zombie while others of its process still run, and hold ports.
	dead := (fields[0][0] == 'Z' || fields[0][0] == 'X') && number(17) <= 1
	return row{pid: pid, ppid: number(1), pgid: number(2), sid: number(3), start: start, dead: dead}, true
}

// execTime is how long a process may take to become another program.
const execTime = time.Second

// stableLooks is how often a process without an environment is looked at while it is not becoming another
// program, before that is believed.
const stableLooks = 4

// marked says whether a process was given the marker in its environment. In the middle of becoming
// another program it has none, and is waited for.
func marked(pid int, marker string) bool {
	const most = 4 << 20
	buf := make([]byte, 32<<10)
	deadline := time.Now().Add(execTime)
	for stable := 0; ; {
		text := readProc(buf, pid, "environ")
		if len(text) == 0 && stable < stableLooks && time.Now().Before(deadline) {
			if !becoming(pid) { // it may have become it since, and be becoming the next by now
				stable++
			}
			runtime.Gosched()
			continue
		}
		if len(text) == len(buf) && len(buf) < most {
			buf = make([]byte, 4*len(buf))
			continue
		}
		value, found := markerIn(text)
		return found && bytes.Contains(value, []byte(marker))
	}
}

// markerIn is the marker's value in an environment. A shell that starts writes a 0 over the sign behind a
// name while it takes the variable in: for a moment the value looks like the next entry.
func markerIn(environ []byte) (value []byte, found bool) {
	taken := false
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if taken {
			return entry, true
		}
		if value, ok := bytes.CutPrefix(entry, []byte(Marker+"=")); ok {
			return value, true
		}
		taken = string(entry) == Marker
	}
	return nil, false
}

// becoming says whether a process is in the middle of becoming another program: it has memory already,
// and neither code nor an environment in it yet.
func becoming(pid int) bool {
	const never = 0x00200000 | 0x4 // PF_KTHREAD, PF_EXITING
	var buf [1024]byte
	text := readProc(buf[:], pid, "stat")
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 50 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return false
	}
	flags, _ := strconv.ParseUint(string(fields[6]), 10, 64)
	code, end := string(fields[23]), string(fields[48]) // not 0 and 0 for one that we may not look into
	return flags&never == 0 && code == "0" && end == "0"
}

// holds says whether a process can write into one of the pipes. The reading ends do not count: they are
// ours, and for a moment those of every other child that is just being started.
func holds(pid int, pipes []uint64) bool {
	if len(pipes) == 0 || starting(pid) {
		return false
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(dir+"/"+name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO || !slices.Contains(pipes, st.Ino) {
			continue
		}
		if unix.Lstat(dir+"/"+name, &st) == nil && st.Mode&0o200 != 0 {
			return true
		}
	}
	return false
}

// starting says whether a process is a child of ours that has not become its program yet. It has for a
// moment all that is open here, the ends of other trees' pipes among them, and belongs to none of those.
func starting(pid int) bool {
	r, ok := rowOf(pid)
	if !ok || r.ppid != os.Getpid() {
		return false
	}
	var own, its unix.Stat_t
	return unix.Stat("/proc/self/exe", &own) == nil && unix.Stat("/proc/"+strconv.Itoa(pid)+"/exe", &its) == nil &&
		own.Dev == its.Dev && own.Ino == its.Ino
}

// commandOf is the command line of a process, or the program's name when it has none.
func commandOf(pid int) string {
	var buf [4096]byte
	text := readProc(buf[:], pid, "cmdline")
	if len(text) == 0 {
		text = readProc(buf[:], pid, "comm")
	}
	return shorten(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
}

// signal sends a signal to this very process: not to another one that has got its number since.
func (r row) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(r.pid, 0)
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM): // an old kernel, or a seccomp filter
		if now, ok := rowOf(r.pid); !ok || now.start != r.start {
			return errGone
		}
		return unix.Kill(r.pid, sig)
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	if now, ok := rowOf(r.pid); !ok || now.start != r.start {
		return errGone
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// readProc reads a file under /proc/PID without the poller that os.File would bring along.
func readProc(buf []byte, pid int, name string) []byte {
	return readFile(buf, "/proc/"+strconv.Itoa(pid)+"/"+name)
}

// scriptFile holds a script in memory, for a child to read from the start.
func scriptFile(script string) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		return tempScript(script)
	}
	return fill(os.NewFile(uintptr(fd), "script"), script)
}

// closeInheritedOnExec marks every descriptor above the standard three.
func closeInheritedOnExec() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11: not supported
}
