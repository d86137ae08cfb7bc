package service

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
)

// unit is what a systemd unit for the executor is made from.
type unit struct {
	system   bool     // of the system, else of one user
	template bool     // executor@USER.service, of the system; system is set too
	hardened bool     // for commands that need no sudo
	program  string   // path of this program
	config   string   // path of the configuration
	user     string   // of a system unit
	token    string   // file that systemd hands over; "" = the configuration says where the token is
	writable []string // paths that hardened leaves writable
	stop     time.Duration
}

const (
	unitName     = "executor.service"
	templateName = "executor@.service"
	// stopRest is for ending the sessions and delivering what is owed, beyond the drain.
	stopRest = 30 * time.Second
)

// packaged are the units that packages have: for the program in /usr/bin, and what is in
// /etc/executor. They are beside this file.
func packagedUnits() map[string]unit {
	stop := config.Default().DrainTimeout + stopRest
	return map[string]unit{
		unitName:                {system: true, program: "/usr/bin/executor", config: config.SystemFile, user: "executor", token: "/etc/executor/token", stop: stop},
		templateName:            {system: true, template: true, program: "/usr/bin/executor", config: "/etc/executor/%i.yaml", user: "%i", token: "/etc/executor/%i.token", stop: stop},
		"executor-user.service": {program: "/usr/bin/executor", config: "%E/executor/config.yaml", stop: stop},
	}
}

func (u unit) name() string {
	if u.template {
		return templateName
	}
	return unitName
}

// text is the unit.
func (u unit) text() string {
	var b strings.Builder
	say := func(lines string) { b.WriteString(strings.TrimPrefix(lines, "\n")) }
	b.WriteString(u.how())
	say(`
[Unit]
Description=Executor: the hands of an AI agent` + map[bool]string{true: " (%i)"}[u.template] + `
Documentation=man:executor(1)
`)
	if u.system {
		say(`
Wants=network-online.target
After=network-online.target
`)
	}
	say(`
# It is started again for ever, after RestartSec each time.
StartLimitIntervalSec=0

[Service]
# Started is when the first brain has registered it, or after 30 s: an absent brain is no failure of
# the service, and the boot does not wait for one.
Type=notify
TimeoutStartSec=infinity
# It shows by that it is not stuck; an absent brain does not count as that.
WatchdogSec=60
ExecStart=` + unitWord(u.program, false) + ` run --config ` + unitWord(u.config, u.template || strings.HasPrefix(u.config, "%E/")) + `
ExecReload=/bin/kill -HUP $MAINPID
`)
	if u.system {
		say(`
User=` + u.user + `
WorkingDirectory=~
`)
		if u.token != "" {
			path := u.token
			if !u.template {
				path = strings.ReplaceAll(path, "%", "%%")
			}
			say(`
# systemd reads it as root and hands it over: the file stays root's, mode 0600, and commands do not
# get at it.
LoadCredential=token:` + path + `
`)
		}
		say(`
StateDirectory=executor` + map[bool]string{true: "-%i"}[u.template] + `
StateDirectoryMode=0700
`)
	} else {
		say(`
WorkingDirectory=%h
# No StateDirectory: before systemd 254 a user's is in ~/.config. The state is in
# ~/.local/state/executor by itself. The token is named by token_file in the configuration.
`)
	}
	say(`
UMask=0022

# Always, except after what waiting does not mend: usage, credential, refusal, another executor
# with the same identity.
Restart=always
RestartSec=2
RestartPreventExitStatus=2 3 4 5

# SIGTERM goes to the executor alone, which lets running calls finish (drain_timeout), ends its
# sessions and delivers their results. What is left then is killed.
KillMode=mixed
TimeoutStopSec=` + fmt.Sprint(int(u.stop.Seconds())) + `

# A command that eats all memory is killed, and not the executor with it.
OOMPolicy=continue
`)
	if u.system {
		say(`
OOMScoreAdjust=-250
`)
	}
	say(`

# The executor may make control groups of its own, in which nothing that a command has started can
# get away from it.
Delegate=yes
TasksMax=8192
LimitNOFILE=65536

`)
	u.sayHardening(say)
	say(`

[Install]
WantedBy=` + map[bool]string{true: "multi-user.target", false: "default.target"}[u.system] + `
`)
	return b.String()
}

// how says, at the top, how such a unit is put to use by hand.
func (u unit) how() string {
	switch {
	case u.template:
		return `# The executor as a service of the system for a user of this machine, in that user's home:
#
#   $EDITOR /etc/executor/USER.yaml                      # brain: wss://…   root: ~/project
#   install -m 0600 TOKENFILE /etc/executor/USER.token   # read by systemd, handed to the service
#   systemctl enable --now executor@USER

`
	case u.system:
		return `# The executor as a service of the system, as a user of its own:
#
#   useradd --system --create-home --shell /bin/bash ` + u.user + `
#   executor config init --config ` + u.config + ` --brain wss://… --root ~` + u.user + `/work
#   install -m 0600 TOKENFILE /etc/executor/token        # read by systemd, handed to the service
#   systemctl enable --now executor

`
	}
	return `# The executor as a service of one user:
#
#   executor config init --brain wss://… --token-file ~/.config/executor/token --root ~/project
#   systemctl --user enable --now executor
#   loginctl enable-linger                               # it runs on without a login

`
}

// sayHardening writes what keeps commands from things. Each line that is on has to leave
// ordinary work possible; the reason of each that is not is beside it.
func (u unit) sayHardening(say func(string)) {
	if !u.hardened {
		say(`
# What commands may do is what the user may, sudo included. Nearly all of systemd's hardening sets
# NoNewPrivileges for a service that is not root's, which ends sudo, su, ping and containers without
# root; so none is on. executor service install --hardened puts it on, for commands that need none
# of these. A sandbox for commands alone is a setting of the executor.
`)
		return
	}
	var paths []string
	for _, p := range u.writable {
		paths = append(paths, unitWord(p, false))
	}
	say(`
# Commands get no more rights than the service has: no sudo, su or setuid program works.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
# The system is read-only but for these. StateDirectory is writable too.
ProtectSystem=strict
ReadWritePaths=` + strings.Join(append(paths, "-/tmp", "-/var/tmp"), " ") + `
PrivateTmp=yes
# Not what a development tool does.
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
RestrictRealtime=yes
# Not: ProtectHome (the work is there), ProtectControlGroups (those of commands are made there),
# PrivateDevices (/dev/fuse, /dev/kvm), PrivateNetwork and IPAddressDeny (the brain, and packages),
# MemoryDenyWriteExecute (every JIT compiler), RestrictNamespaces (sandboxes), LockPersonality
# (debuggers), ProtectProc (ps of the user's own programs), SystemCallFilter (strace, io_uring).
`)
}

// unitWord is a word of a command line in a unit. With specifiers a % is one of systemd's.
func unitWord(word string, specifiers bool) string {
	if !specifiers {
		word = strings.ReplaceAll(word, "%", "%%")
	}
	word = strings.ReplaceAll(word, "$", "$$")
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%$") == "" && word != "" {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(word) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// A unit that was installed begins with a line by which it is seen whether somebody has
// changed it since.
const sealedBy = "# made by executor service install, "

func seal(text string) string {
	sum := sha256.Sum256([]byte(text))
	return sealedBy + hex.EncodeToString(sum[:8]) + "; to change it: systemctl edit\n" + text
}

// sealed reports whether a unit is as it was made.
func sealed(content string) bool {
	_, text, ok := strings.Cut(content, "\n")
	return ok && seal(text) == content
}
