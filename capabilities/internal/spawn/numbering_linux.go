package spawn

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// numbering is how far the system has come in giving out process numbers. What was started between two
// of them has a number between theirs: to know who is new does not take the whole table, and to know that
// nobody is takes no table at all. The zero value is for a system that does not tell.
type numbering struct {
	last  int    // the number given out last
	count uint64 // how many were, since the start of the system
}

// mostNew is how many numbers are looked at one by one. For more the whole table is read.
const mostNew = 1000

// numbered is where the system is now.
func numbered() numbering {
	var buf [4096]byte
	// 0.20 0.18 0.12 1/80 11206: the last one.
	text := bytes.TrimSpace(readFile(buf[:], "/proc/loadavg"))
	last, err := strconv.Atoi(string(text[bytes.LastIndexByte(text, ' ')+1:]))
	if err != nil || last <= 0 {
		return numbering{}
	}
	return numbering{last: last}
}

// counted adds the count, which is for telling a number from the same one when all were given out since.
func (n numbering) counted() numbering {
	var buf [16 << 10]byte
	_, text, ok := bytes.Cut(readFile(buf[:], "/proc/stat"), []byte("\nprocesses "))
	line, _, ok2 := bytes.Cut(text, []byte{'\n'})
	count, err := strconv.ParseUint(string(line), 10, 64)
	if !ok || !ok2 || err != nil || n.last == 0 {
		return numbering{}
	}
	n.count = count
	return n
}

// newTo lists the numbers that were given out since, up to now; not ok when it cannot say, or when they are
// too many.
func (n numbering) newTo(now numbering) (pids []int, ok bool) {
	if n.last == 0 || now.last < n.last || now.last-n.last > mostNew {
		return nil, false
	}
	for pid := n.last + 1; pid <= now.last; pid++ {
		pids = append(pids, pid)
	}
	return pids, true
}

// longAgo says whether so many were given out since that the numbers may have begun anew.
func (n numbering) longAgo(now numbering) bool {
	return n.count == 0 || now.count < n.count || now.count-n.count > 10*mostNew
}

// readFile reads the beginning of a file, as much as the buffer holds.
func readFile(buf []byte, name string) []byte {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	have := 0
	for have < len(buf) {
		n, err := unix.Read(fd, buf[have:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		have += n
	}
	return buf[:have]
}
