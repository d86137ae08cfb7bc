//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter refuses what no tool of a developer needs and what leads around the rest of a sandbox. It is a
// list of what is refused, not of what is allowed: programs are free otherwise. What it refuses is an error
// for the program (EPERM), and never its end.

// The thread that starts commands is a thread of the executor and shares its memory, but it is in the domain of the
// commands: Landlock lets them signal it by its own number, and a signal of that kind is for the whole process. So
// the filter knows that number. (That it cannot be traced is due to the executor: see Enter.)

// sockets are the families of sockets that may be made.
type sockets struct {
	inet bool // IPv4, IPv6, and asking for the machine's own addresses
	unix bool
}

// refused are system calls that are refused whatever their arguments are.
func refused() []uint32 {
	return append([]uint32{
		// The file system as others see it, and ways to a file without its path.
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
		unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		// Other namespaces; new ones are looked at below.
		unix.SYS_SETNS,
		// The kernel: its programs, keys, log, clock and life.
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_SYSLOG,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_ACCT,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
		// Calls that a filter cannot see into.
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		// What processes share by a number and not by a file.
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
		// The memory and descriptors of others, beside what the sandbox does about that.
		unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	}, refusedHere...)
}

// namespaces are the flags of clone and unshare for new ones.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Offsets in what a filter is given: struct seccomp_data.
const (
	atNumber   = 0
	atArch     = 4
	atArgument = 16 // the low half of the first; 8 more for each
)

const (
	allow      = unix.SECCOMP_RET_ALLOW
	notAllowed = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	notThere   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// program is a filter in the making.
type program []unix.SockFilter

func (p *program) add(code uint16, k uint32, jt, jf uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (p *program) load(at uint32)   { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
func (p *program) give(what uint32) { p.add(unix.BPF_RET|unix.BPF_K, what, 0, 0) }

// jump on equality: skip so many when it is, and when it is not.
func (p *program) equal(k uint32, yes, no uint8) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, yes, no)
}
func (p *program) any(k uint32, yes, no uint8) {
	p.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, k, yes, no)
}

// filter is the program that refuses. thread is the number of the thread that starts commands, and more are further
// system calls to refuse.
func filter(allowed sockets, thread int, more ...uint32) filterProgram {
	var p program
	p.load(atArch)
	p.equal(nativeArch, 1, 0)
	p.give(notThere) // programs for another kind of processor, with other numbers
	p.load(atNumber)
	if x32 {
		p.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32Bit, 0, 1)
		p.give(notThere)
	}
	p.equal(unix.SYS_CLONE3, 0, 1) // its flags cannot be seen; with this answer it is clone that is called
	p.give(notThere)
	for _, number := range append(refused(), more...) {
		p.equal(number, 0, 1)
		p.give(notAllowed)
	}
	for _, number := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		p.equal(number, 0, 4)
		p.load(atArgument)
		p.any(namespaces, 0, 1)
		p.give(notAllowed)
		p.give(allow)
	}
	for _, call := range []struct{ number, argument uint32 }{
		{unix.SYS_KILL, 0}, {unix.SYS_TKILL, 0}, {unix.SYS_TGKILL, 1}, {unix.SYS_RT_SIGQUEUEINFO, 0}, {unix.SYS_RT_TGSIGQUEUEINFO, 1}, {unix.SYS_PIDFD_OPEN, 0},
	} {
		p.equal(call.number, 0, 4)
		p.load(atArgument + 8*call.argument)
		p.equal(uint32(thread), 0, 1)
		p.give(notAllowed)
		p.give(allow)
	}
	p.equal(unix.SYS_PIDFD_SEND_SIGNAL, 0, 1) // to whom cannot be seen; programs fall back to kill
	p.give(notThere)
	p.equal(unix.SYS_PRLIMIT64, 0, 4) // the limits of others: one on their time would end them
	p.load(atArgument)
	p.equal(0, 1, 0)
	p.give(notAllowed)
	p.give(allow)
	p.equal(unix.SYS_FCNTL, 0, 4) // signals by way of a file
	p.load(atArgument + 8)
	p.equal(setOwnerEx, 0, 1)
	p.give(notAllowed)
	p.give(allow)
	p.equal(unix.SYS_IOCTL, 0, 5)
	p.load(atArgument + 8)
	p.equal(unix.TIOCSTI, 1, 0) // types into a terminal
	p.equal(tiocLinux, 0, 1)    // and so does this
	p.give(notAllowed)
	p.give(allow)
	p.socket(allowed)
	p.give(allow)
	return p
}

// socket allows some families.
func (p *program) socket(allowed sockets) {
	var q program
	q.load(atArgument)
	if allowed.unix {
		q.equal(unix.AF_UNIX, 0, 1)
		q.give(allow)
	}
	if allowed.inet {
		for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
			q.equal(family, 0, 1)
			q.give(allow)
		}
		q.equal(unix.AF_NETLINK, 0, 3)
		q.load(atArgument + 2*8)
		q.equal(unix.NETLINK_ROUTE, 0, 1)
		q.give(allow)
	}
	q.give(notAllowed)
	p.equal(unix.SYS_SOCKET, 0, uint8(len(q)))
	*p = append(*p, q...)
}

// setOwnerEx is F_SETOWN_EX, which can name a thread.
const setOwnerEx = 15

// tiocLinux is the ioctl of the console's own terminals that pastes a selection.
const tiocLinux = 0x541c

// applyFilter puts the filter on the calling thread and on all that it starts.
func applyFilter(p filterProgram) error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// filterProgram is a filter as the kernel takes it.
type filterProgram = []unix.SockFilter

// filterWorks says whether this system has filters.
func filterWorks() error {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	const getActionAvail = 2
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, getActionAvail, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("this kernel has no seccomp filters (%w); use one with CONFIG_SECCOMP_FILTER", errno)
	}
	return nil
}

// bytesOf is the filter as bwrap reads it.
func bytesOf(p filterProgram) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&p[0])), len(p)*int(unsafe.Sizeof(p[0])))
}
