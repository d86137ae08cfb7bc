package cli

import "golang.org/x/sys/unix"

// systemOwn is the kind of a file system that shows what the system does and keeps no
// files of anybody; "" for others.
func systemOwn(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return ""
	}
	switch int64(s.Type) {
	case unix.PROC_SUPER_MAGIC:
		return "proc"
	case unix.SYSFS_MAGIC:
		return "sysfs"
	case unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return "cgroup"
	case unix.DEVPTS_SUPER_MAGIC:
		return "devpts"
	case unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC:
		return "debugfs"
	}
	return ""
}
