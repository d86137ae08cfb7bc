//go:build !windows

package files

import (
	"io/fs"

	"github.com/agent-executor/executor/capabilities"
	"golang.org/x/sys/unix"
)

// chmodName changes the mode by name; a link is refused by the system, not followed.
// opening is why it could not be done by handle.
func (t *target) chmodName(mode fs.FileMode, opening error) error {
	handle, err := t.dir.Open(".")
	if err != nil {
		return opening
	}
	defer handle.Close()
	bits := uint32(mode.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	if err := unix.Fchmodat(int(handle.Fd()), t.name, bits, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return capabilities.FileError(err, t.p.Display)
	}
	return nil
}
