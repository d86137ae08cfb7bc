package host

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// forgetProgram unmaps the program's own code and constants, which stay in the system's
// cache: what is needed again is mapped again when it is, without a read. Starting, and
// each burst of work, touch nearly all of a program of many megabytes, of which one that
// waits needs little; and the system counts what is mapped when it looks for a process to
// end because memory has run out. What was written to is left alone.
func forgetProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range programMaps(exe) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
	}
}

// programMap is a part of the address space.
type programMap struct{ start, end uintptr }

// programMaps are the read-only parts of a file that is mapped, of which nothing was
// changed in memory.
func programMaps(file string) (list []programMap) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer f.Close()
	var at *programMap
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.Contains(name, " ") {
			if name == "Anonymous" && strings.TrimSpace(value) == "0 kB" && at != nil {
				list = append(list, *at)
				at = nil
			}
			continue
		}
		at = nil
		fields := strings.Fields(line) // start-end perms offset device inode path
		if len(fields) < 6 || strings.Join(fields[5:], " ") != file || fields[1] != "r-xp" && fields[1] != "r--p" {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && start < end {
			at = &programMap{uintptr(start), uintptr(end)}
		}
	}
	return list
}
