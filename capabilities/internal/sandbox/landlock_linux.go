//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlock confines the thread itself. The rules are on files and directories, and hold for all that is below
// them later.
type landlock struct{}

func backendOf(mode string) backend {
	if mode == Bubblewrap {
		return bubblewrap{}
	}
	return landlock{}
}

// What each version of Landlock can do that the sandbox uses.
const (
	abiRefer    = 2 // moves between directories; Linux 5.19
	abiTruncate = 3 // 6.2
	abiDevices  = 5 // 6.10
	abiScope    = 6 // signals; 6.12
)

// landlockABI is the version that the kernel has; 0 for none.
func landlockABI() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// allRights are those that a version knows.
func allRights(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if abi >= abiRefer {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiDevices {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// devices can be used by everybody.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// kernelPlaces can be read: what the kernel says of itself and of processes. What processes keep to themselves
// is not among it, by rules that the domain brings.
var kernelPlaces = []string{"/proc", "/sys"}

func (landlock) check(s *Sandbox) error {
	abi := landlockABI()
	switch {
	case abi < abiRefer:
		return errors.New("this kernel has no Landlock of version 2 or later; use Linux 5.19 or later with landlock among its security modules (lsm=landlock,… on its command line), or bubblewrap")
	case abi < abiScope && !s.policy.Other:
		return fmt.Errorf("this kernel's Landlock has version %d, and only version 6 (Linux 6.12) keeps commands from signalling the user's other processes; use a newer kernel, or another user for commands (run_as), or bubblewrap", abi)
	}
	if err := filterWorks(); err != nil {
		return err
	}
	if s.policy.Network == Loopback && !capable(unix.CAP_SYS_ADMIN) {
		return errors.New("the network loopback takes root here; use bubblewrap, or the network none or open")
	}
	for _, r := range s.policy.Roots {
		for _, h := range s.policy.Hidden {
			if inside(h, r.Path) || inside(r.Path, h) {
				return fmt.Errorf("%s, which commands are not to see, and the root %s are one inside of the other; move one of them, or use bubblewrap", h, r.Path)
			}
		}
	}
	return nil
}

// capable says whether the calling process has a capability.
func capable(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}

func (landlock) enter(s *Sandbox) error {
	abi := landlockABI()
	ruleset, err := newRuleset(abi, allRights(abi))
	if err != nil {
		return err
	}
	defer unix.Close(ruleset)
	if err := s.addRules(ruleset, abi); err != nil {
		return err
	}
	if s.policy.Network == Loopback {
		if err := ownNetwork(); err != nil {
			return fmt.Errorf("make a network for commands: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := s.dropCapabilities(); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := restrict(ruleset); err != nil {
		return err
	}
	var more []uint32
	if abi < abiTruncate {
		more = append(more, unix.SYS_TRUNCATE) // by a path; Landlock of this version does not look at it
	}
	return applyFilter(filter(sockets{inet: s.policy.Network != None}, unix.Gettid(), more...))
}

// newRuleset makes rules for the rights that are given, and for signals.
func newRuleset(abi int, rights uint64) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rights}
	size := unsafe.Offsetof(attr.Scoped)
	if abi >= abiScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		size += unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("make a landlock ruleset: %w", errno)
	}
	return int(fd), nil
}

func restrict(ruleset int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

func (s *Sandbox) addRules(ruleset, abi int) error {
	all := allRights(abi)
	hidden := s.hidden()
	readable := append(s.readable(), kernelPlaces...)
	for _, place := range readable {
		for _, path := range around(place, hidden) {
			if err := addRule(ruleset, path, readRights); err != nil {
				return err
			}
		}
	}
	for _, path := range devices {
		if err := addRule(ruleset, path, fileRights&all&^unix.LANDLOCK_ACCESS_FS_EXECUTE); err != nil {
			return err
		}
	}
	for _, r := range s.policy.Roots {
		rights := all
		if r.ReadOnly {
			rights = readRights
		}
		if err := addRule(ruleset, r.Path, rights); err != nil {
			return err
		}
	}
	if err := addRule(ruleset, s.private.tmp(), all); err != nil {
		return err
	}
	return addRule(ruleset, s.private.home(), all)
}

// addRule allows rights on a file or what is below a directory. What is not there, or cannot be opened by the
// executor itself, is left out: nothing is allowed then.
func addRule(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("allow %s: %w", path, errno)
	}
	return nil
}

// keptForRunAs are needed to become another user, who has none of them then.
var keptForRunAs = []uint{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_NICE}

// dropCapabilities gives up all capabilities but those that are needed for the start of commands. Root is then
// a user to whom root's files belong, and no more.
func (s *Sandbox) dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have, keep [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return err
	}
	if have[0].Permitted|have[1].Permitted == 0 && os.Geteuid() != 0 {
		return nil
	}
	if s.policy.Other {
		for _, c := range keptForRunAs {
			keep[c/32].Effective |= 1 << (c % 32)
		}
		for i := range keep {
			keep[i].Effective &= have[i].Permitted
			keep[i].Permitted = keep[i].Effective
		}
	}
	for c := uint(0); c <= 63; c++ {
		if s.policy.Other && slices.Contains(keptForRunAs, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) && capable(unix.CAP_SETPCAP) {
			return err
		}
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	return unix.Capset(&header, &keep[0])
}

// ownNetwork puts the thread into a network of its own, where the loopback device works.
func ownNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

func (landlock) rewrite(_ *Sandbox, start Start) (Start, error) { return start, nil }

func (landlock) words(s *Sandbox) []string {
	abi := landlockABI()
	list := []string{
		fmt.Sprintf("sandbox: landlock (version %d) and seccomp", abi),
		"sandbox: only these directories can be written: " + s.rootWords() + ", and directories of the commands' own for HOME and TMPDIR",
		"sandbox: beside them only the system's directories and tools in the home directory can be read",
	}
	switch s.policy.Network {
	case Open:
		list = append(list, "sandbox: the network is open, but for Unix sockets")
	case Loopback:
		list = append(list, "sandbox: the network is one of the commands' own, with nothing but the loopback device; Unix sockets are refused")
	case None:
		list = append(list, "sandbox: there is no network; sockets are refused, Unix sockets too")
	}
	list = append(list, "sandbox: no new privileges, namespaces, mounts, keys, kernel interfaces or shared memory; other processes can be neither signalled nor traced, but listed")
	if !s.policy.Other {
		list = append(list, "sandbox: not enforced: mode, owner and times of files outside that belong to the user can be changed (bubblewrap, or another user for commands, prevents that)")
	}
	return list
}

// keepPrivate makes the process one that only root can trace or dump.
func keepPrivate() error {
	if unix.Gettid() == unix.Getpid() {
		return errors.New("it is the first thread of the process that would be confined, which stands for all of them")
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
