package spawn

import (
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Policy adjusts what Environment lets through. The zero value is the rule of the bundled tools.
type Policy struct {
	// Base is the environment to start from; nil means the executor's own.
	Base []string
	// Keep names variables to pass although they look like secrets. EXECUTOR_ ones never pass.
	Keep []string
	// Secrets are credentials the executor holds: a variable that contains one is dropped whatever
	// its name, also when Keep names it.
	Secrets []string
	// Terminal is the value of TERM for a child with a PTY; empty means TERM=dumb.
	Terminal string
}

// quiet keeps programs from asking, paging and opening editors.
var quiet = map[string]string{
	"GIT_TERMINAL_PROMPT": "0",
	"GIT_EDITOR":          "true",
	"GIT_SEQUENCE_EDITOR": "true",
	"EDITOR":              "true",
	"VISUAL":              "true",
	"PAGER":               "cat",
	"GIT_PAGER":           "cat",
	"MANPAGER":            "cat",
	"SYSTEMD_PAGER":       "cat",
	"DEBIAN_FRONTEND":     "noninteractive",
	"PIP_NO_INPUT":        "1",
	"PYTHONUNBUFFERED":    "1",
	"SSH_ASKPASS_REQUIRE": "never",
}

// dropped concern the executor's own process, or a shell's.
var dropped = []string{"_", "SHLVL", "PWD", "OLDPWD", "PS1", "PS2", "PROMPT_COMMAND", "BASHOPTS", "SHELLOPTS",
	"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_USEC", "WATCHDOG_PID",
	"INVOCATION_ID", "JOURNAL_STREAM", "MANAGERPID", "MAINPID", "SYSTEMD_EXEC_PID", "CREDENTIALS_DIRECTORY", "FDSTORE", "LISTEN_PIDFDID",
	"STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}

// Environment composes the environment of a child, sorted. From weak to strong: the login shell's
// variables, the base environment, the fixed variables that keep programs from waiting for a person,
// and the explicit ones, which are taken as they are. PATH, unless explicit, is the login shell's
// entries and then the base's that are missing there. HOME, USER, LOGNAME, SHELL and LANG are the
// base's when set (and, for HOME and SHELL, when they exist), else the login shell's, else the account's.
func Environment(login map[string]string, policy Policy, explicit map[string]string) []string {
	base := policy.Base
	if base == nil {
		base = os.Environ()
	}
	own := parse(base)
	env := map[string]string{}
	for _, layer := range []map[string]string{login, own} {
		for name, value := range layer {
			if policy.passes(name, value) {
				env[name] = value
			}
		}
	}
	env["PATH"] = joinPaths(login["PATH"], own["PATH"])
	account(env, login)
	maps.Copy(env, quiet)
	env["TERM"] = "dumb"
	if policy.Terminal != "" {
		env["TERM"] = policy.Terminal
	}
	maps.Copy(env, explicit)
	delete(env, Marker)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

func (p Policy) passes(name, value string) bool {
	if name == "" || strings.HasPrefix(strings.ToUpper(name), "EXECUTOR_") || slices.Contains(dropped, name) {
		return false
	}
	for _, secret := range p.Secrets {
		if secret != "" && strings.Contains(value, secret) {
			return false
		}
	}
	return slices.Contains(p.Keep, name) || !LooksSecret(name, value)
}

// account fills in who the user is where the environment does not say so truthfully.
func account(env, login map[string]string) {
	home, name := "", ""
	if u, err := user.Current(); err == nil {
		home, name = u.HomeDir, u.Username
	}
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return filepath.IsAbs(path) && err == nil
	}
	choose := func(variable string, good func(string) bool, candidates ...string) {
		for _, value := range append([]string{env[variable], login[variable]}, candidates...) {
			if value != "" && (good == nil || good(value)) {
				env[variable] = value
				return
			}
		}
	}
	choose("HOME", exists, home)
	if runtime.GOOS == "windows" {
		return
	}
	choose("USER", nil, name)
	choose("LOGNAME", nil, env["USER"])
	if !exists(env["SHELL"]) { // the account is looked up when it has to be
		choose("SHELL", exists, accountShell(), "/bin/sh")
	}
	choose("LANG", nil, "C.UTF-8")
}

// joinPaths lists the entries of the first, then those of the second that are missing there.
func joinPaths(first, second string) string {
	var out []string
	for _, list := range []string{first, second} {
		for _, entry := range filepath.SplitList(list) {
			if entry != "" && !slices.Contains(out, entry) {
				out = append(out, entry)
			}
		}
	}
	if len(out) == 0 && runtime.GOOS != "windows" {
		return defaultPath
	}
	return strings.Join(out, string(filepath.ListSeparator))
}

// defaultPath serves where neither the login shell nor the environment has one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func parse(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok {
			m[name] = value
		}
	}
	return m
}
