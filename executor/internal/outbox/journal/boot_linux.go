package journal

import (
	"os"
	"strings"
)

// Boot names the present start of the machine, "" when it has no name: after the next one
// what was written is only there if it was on the disk.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
