package metrics

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// processUsage is what this process has used and holds; 0 for what is not known.
func processUsage() (cpu time.Duration, rss int64, files int) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	if raw, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(raw); len(fields) > 1 {
			pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			rss = pages * int64(os.Getpagesize())
		}
	}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		files = len(entries) - 1 // but for the directory itself
	}
	return cpu, rss, files
}
