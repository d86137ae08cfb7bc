package oversight

import "golang.org/x/sys/unix"

// flushTerminal forgets what was typed, also of a line that has not ended.
func flushTerminal(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
