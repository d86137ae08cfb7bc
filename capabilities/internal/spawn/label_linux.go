package spawn

import (
	"bytes"
	"math/bits"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// The label is the soft limit on file locks, RLIMIT_LOCKS. Linux counts none since 2.6, keeps the
// number all the same, and every child inherits it; nothing sets it by chance to a number like ours.

// labelling is held while the executor's own limit is a child's label. The limit belongs to the
// process, whatever number of groups is in it, and so does the lock.
var labelling sync.Mutex

// withLabel calls start, which starts a child, so that the child has the label from its first moment.
// It says whether it has: not where the system refuses.
func withLabel(label uint64, start func()) (labelled bool) {
	labelling.Lock()
	defer labelling.Unlock()
	var own unix.Rlimit
	if label == 0 || bits.UintSize < 64 || unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &own) != nil ||
		unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: label, Max: own.Max}, nil) != nil {
		start()
		return false
	}
	defer func() { _ = unix.Prlimit(0, unix.RLIMIT_LOCKS, &own, nil) }()
	start()
	return true
}

// labelsWork says whether children can be labelled here.
func labelsWork() bool { return withLabel(1<<labelLowBits, func() {}) }

// labelOf is the label of a process; 0 when it has none. No child of ours is in the executor's own
// session, so that what is started there by others, at the same moment, is not taken for one.
func labelOf(r row, ownSession int) uint64 {
	if r.sid == ownSession {
		return 0
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(r.pid, unix.RLIMIT_LOCKS, nil, &limit); err == nil {
		return toLabel(limit.Cur)
	}
	// Of another user, or one that has become another. The file can be read by all.
	var buf [4096]byte
	text := readProc(buf[:], r.pid, "limits")
	_, text, _ = bytes.Cut(text, []byte("Max file locks"))
	fields := bytes.Fields(text[:min(len(text), 40)])
	if len(fields) == 0 {
		return 0
	}
	soft, _ := strconv.ParseUint(string(fields[0]), 10, 64) // "unlimited" is none
	return toLabel(soft)
}

func toLabel(limit uint64) uint64 {
	if limit >= 1<<(32+labelLowBits) {
		return 0
	}
	return limit
}

func ownSession() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return sid
}
