package sandbox

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_AARCH64
	x32        = false
	x32Bit     = 0
)

// refusedHere are refused on this kind of processor.
var refusedHere []uint32
