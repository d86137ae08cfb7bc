package load

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of one file; a list of mounts can be long.
const maxFile = 1 << 20

// machine reads the figures of the machine itself. It is asked with every heartbeat, of
// which an executor that waits does little else: so it takes the few lines that it needs.
type machine struct{ stat, meminfo string }

func newMachine(root string) machine {
	return machine{filepath.Join(root, "proc/stat"), filepath.Join(root, "proc/meminfo")}
}

// cpu is how long the processors have worked, and how long there was to work, since the
// machine was started, in any unit.
func (m machine) cpu() (t cpuTimes, ok bool) {
	line, _, ok := strings.Cut(beginning(m.stat), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal, and guests, which are in the first two
	if !ok || len(fields) < 5 || fields[0] != "cpu" {
		return t, false
	}
	for i, text := range fields[1:min(len(fields), 9)] {
		n, ok := number(text)
		if !ok {
			return t, false
		}
		t.total += float64(n)
		if i != 3 && i != 4 {
			t.busy += float64(n)
		}
	}
	return t, true
}

// memory is in bytes: what there is, and what of it can be had at once.
func (m machine) memory() (total, available uint64, ok bool) {
	text := beginning(m.meminfo)
	total, ok1 := kilobytes(text, "MemTotal:")
	available, ok2 := kilobytes(text, "MemAvailable:")
	return total, available, ok1 && ok2 && total > 0
}

func kilobytes(text, name string) (uint64, bool) {
	_, rest, _ := strings.Cut("\n"+text, "\n"+name)
	rest, _, _ = strings.Cut(rest, "\n")
	n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 54)
	return n << 10, err == nil
}

// beginning is the first part of a file; what is looked for is always there.
func beginning(name string) string { return read(name, 512) }

// readFile is the content of a file; "" when it cannot be read.
func readFile(name string) string {
	text := read(name, maxFile)
	if strings.IndexByte(text, 0) >= 0 {
		return ""
	}
	return text
}

// read takes no more than most bytes. It goes by the system's own calls: package os would
// have each of these files watched, which is twice as many.
func read(name string, most int) string {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 512)
	for len(b) < most {
		b = slices.Grow(b, 256)
		n, err := unix.Read(fd, b[len(b):min(cap(b), most)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return ""
		case n == 0:
			return string(b)
		default:
			b = b[:len(b)+n]
		}
	}
	return string(b)
}
