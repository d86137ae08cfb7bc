package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// RunAs names the user that children run as. Empty fields are what the system knows of the user.
type RunAs struct {
	User  string // a name or a number
	Group string // a name or a number
	// Groups are the supplementary groups, by name or number; nil is the user's own, and an empty list
	// is none.
	Groups []string
	Home   string // the home directory
}

// ParseRunAs reads USER or USER:GROUP.
func ParseRunAs(text string) (*RunAs, error) {
	name, group, with := strings.Cut(text, ":")
	if name == "" || with && group == "" || strings.ContainsAny(text, " \t\n/") {
		return nil, fmt.Errorf("run as %q: want USER or USER:GROUP, each a name or a number", text)
	}
	return &RunAs{User: name, Group: group}, nil
}

// otherUser is a user who was looked up.
type otherUser struct {
	name        string // as in USER; the number where there is no name
	uid, gid    uint32
	groups      []uint32
	home, shell string
}

func (a *otherUser) String() string { return fmt.Sprintf("%s (uid %d, gid %d)", a.name, a.uid, a.gid) }

// changes says whether another user or group is wanted than the executor's own.
func (a *otherUser) changes() bool { return int(a.uid) != os.Getuid() || int(a.gid) != os.Getgid() }

func (r *RunAs) resolve() (*otherUser, error) {
	fail := func(format string, args ...any) (*otherUser, error) {
		return nil, fmt.Errorf("run as %s: %w", r.User, fmt.Errorf(format, args...))
	}
	a := &otherUser{name: r.User, home: string(filepath.Separator), shell: "/bin/sh"}
	known, err := user.Lookup(r.User)
	if number, bad := strconv.ParseUint(r.User, 10, 31); err != nil && bad == nil {
		a.uid = uint32(number)
		if known, err = user.LookupId(r.User); err != nil && r.Group == "" {
			return fail("there is no account of that number, so that its group is not known; give it as USER:GROUP")
		}
	} else if err != nil {
		return fail("there is no such account; make it, or name another")
	}
	if err == nil {
		a.name = known.Username
		uid, err := strconv.ParseUint(known.Uid, 10, 32)
		if err != nil {
			return fail("its uid %q is no number", known.Uid)
		}
		a.uid = uint32(uid)
		if shell := shellOf(known.Username); shell != "" {
			a.shell = shell
		}
		if known.HomeDir != "" {
			a.home = known.HomeDir
		}
	}
	group := r.Group
	if group == "" {
		group = known.Gid
	}
	if a.gid, err = gidOf(group); err != nil {
		return fail("%w", err)
	}
	groups := r.Groups
	if groups == nil && known != nil {
		if groups, err = known.GroupIds(); err != nil {
			return fail("its groups: %w", err)
		}
	}
	for _, g := range groups {
		gid, err := gidOf(g)
		if err != nil {
			return fail("%w", err)
		}
		a.groups = append(a.groups, gid)
	}
	if r.Home != "" {
		a.home = r.Home
	}
	if !filepath.IsAbs(a.home) {
		return fail("its home directory %q is no absolute path", a.home)
	}
	return a, nil
}

// gidOf is the number of a group.
func gidOf(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	gid, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q", name)
	}
	return uint32(gid), nil
}

// identities are the variables that say who the user is or lead to what belongs to that user.
var identities = []string{"HOME", "USER", "LOGNAME", "SHELL", "MAIL", "PATH", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO",
	"DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
	"SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_COMMAND"}

// Environment is the function of that name, for the user that the keeper's children run as: nothing of
// the executor's own identity is in it, and nothing that leads into its home directory. A nil keeper has no other user.
func (k *Keeper) Environment(login map[string]string, policy Policy, explicit map[string]string) []string {
	l := k.policy()
	if l == nil || l.user == nil {
		return Environment(login, policy, explicit)
	}
	a := l.user
	base := policy.Base
	if base == nil {
		base = os.Environ()
	}
	own := lookup(base, "HOME")
	policy.Base = nil
	for _, entry := range base {
		name, value, _ := strings.Cut(entry, "=")
		inHome := a.home != own && len(own) > 1 && (value == own || strings.Contains(value, own+"/"))
		if !slices.Contains(identities, name) && !inHome {
			policy.Base = append(policy.Base, entry)
		}
	}
	policy.Base = append(policy.Base, a.variables()...)
	return Environment(login, policy, explicit)
}

// variables are who the user is, in an environment.
func (a *otherUser) variables() []string {
	return []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "SHELL=" + a.shell}
}

// reason adds to the error of a start whether it is that the user may not enter the directory.
func (l *launch) reason(dir string, err error) error {
	if l == nil || l.user == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if at := l.user.barred(dir); at != "" {
		return fmt.Errorf("%w: %s may not enter %s; give that user the permission to, or use a workspace elsewhere", err, l.user, at)
	}
	return err
}

// barred says which directory on the way to dir the user may not enter, by its permission bits; empty
// for none.
func (a *otherUser) barred(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil || a.uid == 0 {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	var way []string
	for at := dir; ; at = filepath.Dir(at) {
		way = append(way, at)
		if at == filepath.Dir(at) {
			break
		}
	}
	for _, at := range slices.Backward(way) {
		info, err := os.Stat(at)
		if err != nil {
			return ""
		}
		uid, gid, ok := ownerOf(info)
		if !ok {
			return ""
		}
		bit := os.FileMode(0o001)
		if uid == a.uid {
			bit = 0o100
		} else if gid == a.gid || slices.Contains(a.groups, gid) {
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return at
		}
	}
	return ""
}

// Give makes files that the executor has made the children's user's. It does nothing when that is its own.
func (k *Keeper) Give(paths ...string) error {
	l := k.policy()
	if l == nil || l.user == nil || !l.user.changes() || os.Getuid() != 0 {
		return nil
	}
	for _, path := range paths {
		if err := os.Lchown(path, int(l.user.uid), int(l.user.gid)); err != nil {
			return err
		}
	}
	return nil
}
