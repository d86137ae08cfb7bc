//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// target is what an escape is after. It is handed to the program that tries.
type target struct {
	Root    string // a root of the sandbox
	Outside string // a directory outside of it, with a file "secret" that has Secret in it
	Home    string // with .ssh/id and .bashrc
	State   string // with a file "token"
	Token   string // a token file inside of a place that can be read
	Secret  string
	Victim  int // a process outside of the sandbox, with Secret in its environment
	Parent  int // the executor
	TCP     string
	UDP     string
	Unix    string // sockets that listen outside
	Name    string // abstract
}

// escape tries one thing. Without an error it has succeeded.
type escape struct {
	name string
	try  func(t target) error
}

func reads(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func writes(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func lists(path string) error {
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) == 0 {
		return errors.New("nothing is there")
	}
	return err
}

func syscalls(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// says that a call is refused as such, and not for its arguments.
func forbidden(number uintptr, args ...uintptr) error {
	err := syscalls(number, args...)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) {
		return err
	}
	return nil
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func dials(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

func proc(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// found says whether a process's file has the secret in it.
func found(path, secret string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), secret) {
		return errors.New("it is not there")
	}
	return nil
}

// eachThread tries something on each thread of the executor until it succeeds.
func eachThread(t target, try func(thread int) error) error {
	list, err := os.ReadDir(proc(t.Parent, "task"))
	if err != nil {
		return err
	}
	for _, e := range list {
		thread, _ := strconv.Atoi(e.Name())
		if err = try(thread); err == nil {
			return nil
		}
	}
	return err
}

// escapes are refused whatever the network may be.
var escapes = []escape{
	{"read a file outside", func(t target) error { return reads(t.Outside + "/secret") }},
	{"write a file outside", func(t target) error { return writes(t.Outside + "/secret") }},
	{"make a file outside", func(t target) error { return writes(t.Outside + "/new") }},
	{"make a directory outside", func(t target) error { return os.Mkdir(t.Outside+"/newdir", 0o700) }},
	{"list a directory outside", func(t target) error { return lists(t.Outside) }},
	{"remove a file outside", func(t target) error { return os.Remove(t.Outside + "/precious") }},
	{"truncate a file outside", func(t target) error { return os.Truncate(t.Outside+"/precious", 0) }},
	{"read through ..", func(t target) error { return reads(t.Root + "/../" + filepath.Base(t.Outside) + "/secret") }},
	{"read through a directory", func(t target) error {
		if err := os.Chdir(t.Outside); err != nil {
			return err
		}
		return reads("secret")
	}},
	{"read through a link", func(t target) error {
		_ = os.Symlink(t.Outside+"/secret", t.Root+"/link")
		return reads(t.Root + "/link")
	}},
	{"write through a link", func(t target) error {
		_ = os.Symlink(t.Outside, t.Root+"/dirlink")
		return writes(t.Root + "/dirlink/new")
	}},
	{"hard link into the root", func(t target) error { return os.Link(t.Outside+"/secret", t.Root+"/hard") }},
	{"move into the root", func(t target) error { return os.Rename(t.Outside+"/secret", t.Root+"/moved") }},
	{"move out of the root", func(t target) error {
		if err := writes(t.Root + "/mine"); err != nil {
			return fmt.Errorf("not even the root: %w", err)
		}
		return os.Rename(t.Root+"/mine", t.Outside+"/mine")
	}},
	{"run a program outside", func(t target) error { return exec.Command(t.Outside + "/program").Run() }},
	{"read through /proc/self/root", func(t target) error { return reads("/proc/self/root" + t.Outside + "/secret") }},
	{"read through /proc/self/cwd/..", func(t target) error {
		return reads("/proc/self/cwd/../" + filepath.Base(t.Outside) + "/secret")
	}},
	{"read through another's root", func(t target) error { return reads(proc(t.Victim, "root") + t.Outside + "/secret") }},
	{"read through another's directory", func(t target) error { return reads(proc(t.Victim, "cwd") + "/secret") }},
	{"another's environment", func(t target) error { return found(proc(t.Victim, "environ"), t.Secret) }},
	{"another's memory", func(t target) error { return reads(proc(t.Victim, "mem")) }},
	{"another's map", func(t target) error { return found(proc(t.Victim, "maps"), "-") }},
	{"another's descriptors", func(t target) error {
		_, err := os.Readlink(proc(t.Victim, "fd/0"))
		return err
	}},
	{"the executor's environment", func(t target) error { return found(proc(t.Parent, "environ"), t.Secret) }},
	{"the executor's memory", func(t target) error { return writes(proc(t.Parent, "mem")) }},
	{"list the home directory", func(t target) error { return found(t.Home+"/.bashrc", "") }},
	{"read a key at home", func(t target) error { return reads(t.Home + "/.ssh/id") }},
	{"write what a shell reads at home", func(t target) error {
		f, err := os.OpenFile(t.Home+"/.bashrc", os.O_WRONLY, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	}},
	{"the state directory", func(t target) error { return reads(t.State + "/token") }},
	{"the token file", func(t target) error { return found(t.Token, t.Secret) }},
	{"the control socket", func(t target) error { return dials("unix", t.State+"/control.sock") }},
	{"a Unix socket outside", func(t target) error { return dials("unix", t.Unix) }},
	{"an abstract Unix socket", func(t target) error { return dials("unix", "@"+t.Name) }},
	{"the container engine's socket", func(target) error { return dials("unix", "/var/run/docker.sock") }},
	{"kernel messages over netlink", func(target) error {
		return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)
	}},
	{"raw packets", func(target) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{"raw sockets", func(target) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{"the host of a virtual machine", func(target) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{"the kernel's ciphers", func(target) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
	{"trace another process", func(t target) error { return unix.PtraceAttach(t.Victim) }},
	{"seize the executor", func(t target) error { return syscalls(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(t.Parent)) }},
	{"read another's memory", func(t target) error {
		local := make([]byte, 8)
		v := unix.Iovec{Base: &local[0]}
		v.SetLen(len(local))
		return forbidden(unix.SYS_PROCESS_VM_READV, uintptr(t.Victim), uintptr(unsafe.Pointer(&v)), 1, uintptr(unsafe.Pointer(&v)), 1, 0)
	}},
	{"signal another process", func(t target) error { return unix.Kill(t.Victim, 0) }},
	{"stop the executor", func(t target) error { return unix.Kill(t.Parent, unix.SIGCONT) }},
	{"signal a thread of the executor", func(t target) error {
		return eachThread(t, func(thread int) error {
			if err := unix.Kill(thread, 0); err == nil {
				return nil
			}
			if err := unix.Tgkill(t.Parent, thread, 0); err == nil {
				return nil
			}
			dir, err := unix.Open(proc(thread, ""), unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(dir)
			return syscalls(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(dir), 0, 0, 0)
		})
	}},
	{"trace a thread of the executor", func(t target) error {
		return eachThread(t, func(thread int) error { return syscalls(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(thread)) })
	}},
	{"memory of a thread of the executor", func(t target) error {
		return eachThread(t, func(thread int) error { return writes(proc(thread, "mem")) })
	}},
	{"signal by way of a file", func(target) error { return forbidden(unix.SYS_FCNTL, 0, 15, 0) }},
	{"limit another process", func(t target) error {
		return unix.Prlimit(t.Victim, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	}},
	{"another's descriptor", func(t target) error { return forbidden(unix.SYS_PIDFD_GETFD, 0, 0, 0) }},
	{"mount", func(t target) error { return unix.Mount("none", t.Root, "tmpfs", 0, "") }},
	{"mount in the new way", func(target) error { return forbidden(unix.SYS_FSOPEN, 0, 0) }},
	{"unmount", func(target) error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
	{"change the root", func(t target) error { return unix.Chroot(t.Root) }},
	{"a user namespace", func(target) error { return forbidden(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) }},
	{"a mount namespace", func(target) error { return forbidden(unix.SYS_UNSHARE, unix.CLONE_NEWNS) }},
	{"a namespace by clone", func(target) error { return forbidden(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) }},
	{"a namespace by clone3", func(target) error { return forbidden(unix.SYS_CLONE3, 0, 0) }},
	{"another's namespace", func(t target) error {
		return forbidden(unix.SYS_SETNS, ^uintptr(0), 0)
	}},
	{"capabilities", func(target) error {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		for _, want := range []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000"} {
			if !strings.Contains(string(text), want) {
				return nil
			}
		}
		return errors.New("it has none, and gets none")
	}},
	{"become root by a program of root's", func(t target) error {
		out, err := exec.Command(t.Root+"/setuid", "whoami").Output()
		if err != nil {
			return err
		}
		if uid := strings.TrimSpace(string(out)); uid != "0 0000000000000000" && strings.HasPrefix(uid, "0 ") {
			return nil
		}
		return fmt.Errorf("it runs as %s", out)
	}},
	{"physical memory", func(target) error { return reads("/dev/mem") }},
	{"the kernel's log", func(target) error {
		f, err := os.OpenFile("/dev/kmsg", os.O_RDONLY, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	}},
	{"the kernel's log by its call", func(target) error { return forbidden(unix.SYS_SYSLOG, 10, 0, 0) }},
	{"a disk", func(target) error {
		disks, _ := filepath.Glob("/dev/[vsx]d[a-z]")
		for _, d := range append(disks, "/dev/nvme0n1") {
			f, err := os.Open(d)
			if err == nil {
				_ = f.Close()
				return nil
			}
		}
		return errors.New("none can be opened")
	}},
	{"a device of its own", func(t target) error {
		path := t.Root + "/device"
		if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))); err != nil {
			return err
		}
		return reads(path)
	}},
	{"another's terminal", func(target) error {
		all, _ := filepath.Glob("/dev/pts/[0-9]*")
		for _, path := range all {
			f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
			if err == nil {
				_ = f.Close()
				return nil
			}
		}
		return errors.New("none can be opened")
	}},
	{"type into a terminal", func(target) error {
		c := byte('x')
		return forbidden(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	}},
	{"paste into a console", func(target) error { return forbidden(unix.SYS_IOCTL, 0, 0x541c, 0) }},
	{"a file by its handle", func(target) error { return forbidden(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0), 0, 0) }},
	{"io_uring", func(target) error { return forbidden(unix.SYS_IO_URING_SETUP, 1, 0) }},
	{"bpf", func(target) error { return forbidden(unix.SYS_BPF, 0, 0, 0) }},
	{"keys", func(target) error { return forbidden(unix.SYS_KEYCTL, 0, 0, 0) }},
	{"performance events", func(target) error { return forbidden(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0) }},
	{"page faults", func(target) error { return forbidden(unix.SYS_USERFAULTFD, 1) }},
	{"shared memory by number", func(target) error { return forbidden(unix.SYS_SHMGET, 0x1234, 4096, 0o1600) }},
	{"shared memory outside", func(t target) error { return reads("/dev/shm/" + t.Name) }},
	{"a job for cron", func(t target) error { return writes("/etc/cron.d/" + t.Name) }},
	{"a job for at", func(t target) error { return writes("/var/spool/cron/" + t.Name) }},
	{"a library for all programs", func(target) error { return writes("/etc/ld.so.preload") }},
	{"a program of the system", func(target) error { return writes("/usr/bin/env") }},
	{"a setting of the kernel", func(target) error {
		return os.WriteFile("/proc/sys/kernel/core_pattern", []byte("core"), 0)
	}},
	{"the system request key", func(target) error { return writes("/proc/sysrq-trigger") }},
	{"a control group", func(t target) error {
		for _, dir := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/unified/", "/sys/fs/cgroup/memory/"} {
			if err := os.Mkdir(dir+t.Name, 0o755); err == nil {
				_ = os.Remove(dir + t.Name)
				return nil
			}
		}
		return errors.New("none can be made")
	}},
	{"descriptors of the executor", func(target) error {
		for fd := 3; fd < 256; fd++ {
			var st unix.Stat_t
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if err == nil && flags&unix.FD_CLOEXEC == 0 && unix.Fstat(fd, &st) == nil {
				return nil // Go's own are close-on-exec
			}
		}
		return errors.New("there are none")
	}},
	{"write a root that is read-only", func(t target) error { return writes(t.Root + "-ro/new") }},
	{"move out of a root that is read-only", func(t target) error { return os.Rename(t.Root+"-ro/file", t.Root+"/taken") }},
}

// connections are refused where there is no network.
var connections = []escape{
	{"TCP", func(t target) error { return dials("tcp", t.TCP) }},
	{"UDP", func(t target) error {
		c, err := net.Dial("udp", t.UDP)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_ = c.SetReadDeadline(deadline())
		_, err = c.Read(make([]byte, 1))
		return err
	}},
}

// offline are refused where there are no sockets at all.
var offline = []escape{
	{"listen on TCP", func(target) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			_ = l.Close()
		}
		return err
	}},
	{"ask for routes", func(target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }},
	{"IPv6", func(target) error { return socket(unix.AF_INET6, unix.SOCK_DGRAM, 0) }},
}

// metadata can be changed where the sandbox is not a file system of its own.
var metadata = []escape{
	{"change a mode outside", func(t target) error { return os.Chmod(t.Outside+"/precious", 0o666) }},
	{"learn that a file is outside", func(t target) error {
		_, err := os.Lstat(t.Outside + "/precious")
		return err
	}},
}
