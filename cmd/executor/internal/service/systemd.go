package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
)

// systemd is that of this machine, as far as the executor has to do with it.
type systemd struct {
	root      string // in front of its directories; "" but in tests
	systemctl string // "" = there is none
	config    string // the user's directory for configurations; "" = none
	user      string
}

func newSystemd() systemd {
	d := systemd{}
	d.systemctl, _ = exec.LookPath("systemctl")
	d.config, _ = os.UserConfigDir()
	if u, err := user.Current(); err == nil {
		d.user = u.Username
	}
	return d
}

// absent says why it cannot be used; "" when it can.
func (d systemd) absent() string {
	if d.systemctl == "" {
		return "there is no systemctl on this machine"
	}
	if _, err := os.Stat(d.root + "/run/systemd/system"); err != nil {
		return "systemd does not run on this machine"
	}
	return ""
}

// dir is where units are installed.
func (d systemd) dir(system bool) string {
	if system {
		return d.root + "/etc/systemd/system"
	}
	return filepath.Join(d.config, "systemd", "user")
}

// places are where a unit may be, what wins first.
func (d systemd) places(system bool, name string) []string {
	kind := "user"
	if system {
		kind = "system"
	}
	list := []string{filepath.Join(d.dir(system), name)}
	for _, dir := range []string{"/etc", "/usr/local/lib", "/usr/lib", "/lib"} {
		if place := d.root + dir + "/systemd/" + kind + "/" + name; place != list[0] {
			list = append(list, place)
		}
	}
	return list
}

// find is the first of the places with a unit; "" when there is none.
func (d systemd) find(system bool, name string) string {
	for _, path := range d.places(system, name) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// systemctlLine is a command line of systemctl, for the manager of the system or the user.
func systemctlLine(system bool, args ...string) []string {
	if !system {
		args = append([]string{"--user"}, args...)
	}
	return append([]string{"systemctl"}, args...)
}

// systemctlTime is for one command of systemctl.
const systemctlTime = 30 * time.Second

// call runs systemctl and returns what it printed.
func (d systemd) call(ctx context.Context, system bool, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlTime)
	defer cancel()
	line := systemctlLine(system, args...)
	c := exec.CommandContext(ctx, d.systemctl, line[1:]...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, time.Second
	err := c.Run()
	if err != nil && ctx.Err() != nil {
		err = errors.New("no answer")
	}
	said, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
	if err != nil && said != "" {
		err = fmt.Errorf("%w: %s", err, said[:min(len(said), 300)])
	}
	return strings.TrimSpace(out.String()), err
}

// word is a state that systemctl says with any exit code.
func (d systemd) word(ctx context.Context, system bool, args ...string) string {
	out, err := d.call(ctx, system, args...)
	if out == "" && err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(out, "\n")
	return line
}

// lingers reports whether the user's services run without a login.
func (d systemd) lingers() bool {
	_, err := os.Stat(d.root + "/var/lib/systemd/linger/" + d.user)
	return err == nil
}

// leastSystemd is the first version that knows all that the units say.
const leastSystemd = 247

// Check looks at systemd, and at the units that are installed, for the doctor. It changes nothing.
func Check(ctx context.Context) doctor.Result { return newSystemd().check(ctx) }

func (d systemd) check(ctx context.Context) doctor.Result {
	if why := d.absent(); why != "" {
		return doctor.Of(doctor.Skip, "", "%s; another supervisor starts the executor", why)
	}
	out, err := d.call(ctx, true, "--version")
	if err != nil {
		return doctor.Of(doctor.Warn, "look at systemctl status", "systemctl does not work: %v", err)
	}
	found, _, _ := strings.Cut(out, "\n")
	if fields := strings.Fields(found); len(fields) > 1 {
		if n, err := strconv.Atoi(fields[1]); err == nil && n < leastSystemd {
			return doctor.Of(doctor.Warn, "use a token file in the configuration, and leave LoadCredential out of the unit", "systemd %d does not know all that the units say; %d does", n, leastSystemd)
		}
	}
	results := []doctor.Result{doctor.Of(doctor.OK, "", "%s", found)}
	n := 0
	for _, system := range []bool{true, false} {
		path := d.find(system, unitName)
		if path == "" || !system && d.config == "" {
			continue
		}
		n++
		results = append(results, d.judgeUnit(ctx, system, path))
	}
	if n == 0 {
		results = append(results, doctor.Of(doctor.OK, "", "no unit is installed; executor service install makes one"))
	}
	return doctor.Join(results...)
}

func (d systemd) judgeUnit(ctx context.Context, system bool, path string) doctor.Result {
	journal := "journalctl -u executor -e"
	if !system {
		journal = "journalctl --user -u executor -e"
	}
	state := d.word(ctx, system, "is-active", unitName)
	switch {
	case state == "failed":
		return doctor.Of(doctor.Warn, journal, "the unit %s has failed", path)
	case !system && state == "active" && !d.lingers():
		return doctor.Of(doctor.Warn, "loginctl enable-linger", "the unit %s ends when this user logs out", path)
	}
	return doctor.Of(doctor.OK, "", "the unit %s is %s", path, state)
}
