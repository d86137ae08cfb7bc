package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// systemPlaces can be read and run: the programs and the configuration of the system.
var systemPlaces = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap", "/home/linuxbrew/.linuxbrew",
	"/var/lib/dpkg", "/var/lib/ca-certificates", "/var/lib/alternatives",
	"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf"}

// systemSecrets are in them, and are for root alone: they are kept from commands that run as root.
var systemSecrets = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/security/opasswd",
	"/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/wireguard", "/etc/NetworkManager/system-connections", "/etc/letsencrypt",
	"/etc/kubernetes", "/etc/rancher", "/etc/docker/key.json", "/etc/executor"}

// homeTools are the parts of a home directory that can be read: tools that people install there, and the
// settings of git that hold no credentials.
var homeTools = []string{".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes",
	"bin", ".local/bin", ".local/lib", ".local/share/mise", ".local/share/uv", ".local/share/pnpm", ".local/share/virtualenvs",
	".pyenv", ".nvm", ".nodenv", ".rbenv", ".asdf", ".sdkman", ".volta", ".bun", ".deno", ".cargo/bin", ".rustup", ".dotnet", ".ghcup/bin", ".jenv", ".fnm",
	"go/bin", "sdk", "miniconda3", "anaconda3", "miniforge3"}

// homePlaces are those of homeTools that are there.
func (s *Sandbox) homePlaces() (list []string) {
	if s.policy.Home == "" || s.policy.Home == "/" {
		return nil
	}
	for _, name := range homeTools {
		path := filepath.Join(s.policy.Home, name)
		if _, err := os.Stat(path); err == nil {
			list = append(list, path)
		}
	}
	return list
}

// readable are the places that can be read and run, without what is inside of another. What links lead to is
// with them.
func (s *Sandbox) readable() []string {
	list := slices.Clone(systemPlaces)
	if !s.home {
		list = append(list, s.homePlaces()...)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && !inside(dir, s.policy.Home) && dir != "/" {
			list = append(list, dir)
		}
	}
	list = append(list, s.policy.Read...)
	var real []string
	for _, path := range list {
		if p, err := realPath(path); err == nil && p != "/" {
			real = append(real, p)
		}
	}
	return outermost(real)
}

// outermost leaves out what is inside of another.
func outermost(paths []string) (list []string) {
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if !slices.ContainsFunc(list, func(dir string) bool { return inside(p, dir) }) {
			list = append(list, p)
		}
	}
	return list
}

// hidden are the places that are kept from commands although they may be inside of others, and are there.
func (s *Sandbox) hidden() []string {
	list := slices.Clone(s.policy.Hidden)
	if s.policy.UID == 0 {
		for _, pattern := range systemSecrets {
			found, _ := filepath.Glob(pattern)
			list = append(list, found...)
		}
	}
	var there []string
	for _, path := range list {
		if _, err := os.Lstat(path); err == nil {
			there = append(there, path)
		}
	}
	return outermost(there)
}

// around is what is inside of dir without what is hidden there: dir itself when nothing is, else the
// entries of it that are neither hidden nor have something hidden inside, and so on for those.
func around(dir string, hidden []string) []string {
	if slices.ContainsFunc(hidden, func(h string) bool { return inside(dir, h) }) {
		return nil
	}
	if !slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(h, dir+"/") }) {
		return []string{dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			real, err := realPath(path)
			if err != nil || slices.ContainsFunc(hidden, func(h string) bool { return inside(real, h) || inside(h, real) }) {
				continue
			}
		}
		list = append(list, around(path, hidden)...)
	}
	return list
}
