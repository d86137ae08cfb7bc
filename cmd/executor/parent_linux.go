package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// parentOf is a process's parent; 0 when it is not known.
func parentOf(pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// pid (name) state ppid: the name may have anything in it, but only one is the last )
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}
