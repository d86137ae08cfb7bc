package executor

import (
	"time"

	"golang.org/x/sys/unix"
)

// knowsSuspended: suspended tells the truth here.
const knowsSuspended = true

// suspended is for how long the machine has been suspended since it booted.
func suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	d := time.Duration(boot.Nano() - mono.Nano())
	return d.Truncate(time.Millisecond) // the two are not read at the same instant
}
