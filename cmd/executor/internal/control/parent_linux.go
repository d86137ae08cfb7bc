package control

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// parentOf is a process's parent.
func parentOf(pid int) (int, parentage) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		// Processes of others may be hidden.
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return 0, parentGone
		}
		return 0, parentUnknown
	}
	// pid (name) state ppid: the name may have anything in it, but only one is the last )
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 2 {
		return 0, parentUnknown
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, parentUnknown
	}
	return parent, parentKnown
}
