package journal

import "golang.org/x/sys/unix"

// Boot names the present start of the machine, "" when it has no name: after the next one
// what was written is only there if it was on the disk.
func Boot() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
