package service

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/executor/internal/doctor"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// fakeSystemd is a machine with a systemctl that notes its command lines, and says what
// it is told to.
type fakeSystemd struct {
	systemd
	t    *testing.T
	home string
}

func newFakeSystemd(t *testing.T) *fakeSystemd {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("scripts")
	}
	f := &fakeSystemd{t: t, home: configtest.Isolate(t)}
	f.root, f.config, f.user = t.TempDir(), filepath.Join(f.home, ".config"), "somebody"
	f.systemctl = filepath.Join(f.root, "systemctl")
	require.NoError(t, os.MkdirAll(f.root+"/run/systemd/system", 0o755))
	f.answers(`*is-active*) echo inactive; exit 3;; *is-enabled*) echo disabled; exit 1;; *--version*) echo "systemd 252 (252.1)";;`)
	return f
}

func (f *fakeSystemd) answers(cases string) {
	f.t.Helper()
	text := "#!/bin/sh\necho \"$@\" >> " + f.root + "/calls\ncase \"$*\" in\n" + cases + "\nesac\n"
	require.NoError(f.t, os.WriteFile(f.systemctl, []byte(text), 0o700))
}

func (f *fakeSystemd) calls() string {
	raw, _ := os.ReadFile(f.root + "/calls")
	_ = os.Remove(f.root + "/calls")
	return string(raw)
}

// do runs one of the service commands.
func (f *fakeSystemd) do(verb func(context.Context, systemd, serviceOptions, *cobra.Command) error, o serviceOptions) (string, error) {
	f.t.Helper()
	var out bytes.Buffer
	c := cli.NewRoot("executor", "")
	c.SetOut(&out)
	c.SetContext(f.t.Context())
	err := verb(f.t.Context(), f.systemd, o, c)
	return out.String(), err
}

func says(t *testing.T, r doctor.Result, status doctor.Status, text, remedy string) {
	t.Helper()
	assert.Equal(t, status, r.Status, r.Text)
	assert.Contains(t, r.Text, text)
	assert.Contains(t, r.Remedy, remedy)
}

func TestServiceInstall(t *testing.T) {
	f := newFakeSystemd(t)
	o := serviceOptions{}
	path := filepath.Join(f.home, ".config", "systemd", "user", "executor.service")
	out, err := f.do(installService, o)
	require.NoError(t, err)
	assert.Equal(t, path+` is written
next:
  executor config init --config `+f.home+`/.config/executor/config.yaml --brain wss://HOST/executor --root DIR
  systemctl --user daemon-reload
  systemctl --user enable --now --no-block executor
  loginctl enable-linger
`, out)
	assert.Empty(t, f.calls(), "nothing is run")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, sealed(string(raw)))
	assert.Equal(t, f.home+"/.config/executor/config.yaml", strings.Fields(keys(string(raw))["ExecStart"])[3])

	given := config.Default()
	flags := pflag.NewFlagSet("init", pflag.ContinueOnError)
	config.AddFlags(flags, &given)
	require.NoError(t, flags.Parse([]string{"--brain", "wss://h/", "--drain-timeout", "5m", "--root", f.home + "/work"}))
	_, err = config.Init(flags, &given, false)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(f.root+"/var/lib/systemd/linger", 0o755))
	require.NoError(t, os.WriteFile(f.root+"/var/lib/systemd/linger/somebody", nil, 0o600))
	o.now = true
	out, err = f.do(installService, o)
	require.NoError(t, err)
	assert.Equal(t, path+" is replaced\ndone: systemctl --user daemon-reload\ndone: systemctl --user enable --now --no-block executor\n", out)
	assert.Equal(t, "--user daemon-reload\n--user enable --now --no-block executor\n", f.calls())
	raw, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "330", keys(string(raw))["TimeoutStopSec"], "over the drain timeout that is configured")
	out, err = f.do(installService, o)
	require.NoError(t, err)
	assert.Contains(t, out, path+" is there already\n")

	f.answers(`*enable*) echo "Failed to enable unit" >&2; exit 1;;`)
	_, err = f.do(installService, o)
	assert.ErrorContains(t, err, "systemctl --user enable --now --no-block executor: exit status 1: Failed to enable unit")
}

// A unit that somebody has changed is theirs.
func TestServiceInstallOverAChange(t *testing.T) {
	f := newFakeSystemd(t)
	path := filepath.Join(f.dir(true), unitName)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("[Service]\nExecStart=/bin/true\n"), 0o644))
	o := serviceOptions{system: true, user: "root", config: filepath.Join(f.home, "c.yaml")}
	_, err := f.do(installService, o)
	require.ErrorContains(t, err, "was not made by this command, or was changed since; put changes into a drop-in (systemctl edit), or replace it with --force")
	assert.Equal(t, cli.ExitUsage, cli.Code(err))
	_, err = f.do(uninstallService, o)
	require.ErrorContains(t, err, "remove it yourself, or with --force")
	o.force = true
	out, err := f.do(installService, o)
	require.NoError(t, err)
	assert.Contains(t, out, path+" is replaced")
	assert.Contains(t, out, "install -m 0600 TOKENFILE /etc/executor/token")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1)

	out, err = f.do(serviceStatus, serviceOptions{system: true})
	require.NoError(t, err)
	assert.Equal(t, "unit     "+path+"\nactive   inactive\nenabled  disabled\ncheck    systemd-run --pipe --wait -q -p User=executor -p LoadCredential=token:/etc/executor/token -p StateDirectory=executor executor doctor --config /etc/executor/config.yaml\n", out)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(raw, '\n'), 0o644))
	out, err = f.do(serviceStatus, serviceOptions{system: true})
	require.NoError(t, err)
	assert.Contains(t, out, path+" (changed by hand)\n")

	o.template = true
	out, err = f.do(installService, o)
	require.NoError(t, err)
	assert.Contains(t, out, "executor@.service is written\nnext:\n  systemctl daemon-reload\n  systemctl enable --now --no-block executor@USER\n")
}

// The user of a system's service, its configuration and token come before its start.
func TestServiceInstallNeedsItsThings(t *testing.T) {
	f := newFakeSystemd(t)
	file := filepath.Join(f.home, "with space.yaml")
	out, err := f.do(installService, serviceOptions{system: true, user: "no-such-user", config: file, now: true})
	require.NoError(t, err)
	assert.Contains(t, out, "it is not started: the commands below come first\nnext:\n  useradd --system --create-home --shell /bin/bash no-such-user\n  executor config init --config '"+file+"' --brain")
	assert.Empty(t, f.calls())
	require.NoError(t, os.WriteFile(file, []byte("brian: x\n"), 0o600))
	_, err = f.do(installService, serviceOptions{system: true, user: "root", config: file})
	assert.ErrorContains(t, err, `unknown key "brian"`, "a configuration that is there is right")
	require.NoError(t, os.WriteFile(file, []byte("brain: wss://h/\ntoken_file: /x\n"), 0o600))
	out, err = f.do(installService, serviceOptions{system: true, user: "root", config: file})
	require.NoError(t, err)
	assert.NotContains(t, out, "TOKENFILE", "the configuration has one")
}

func TestServiceUninstall(t *testing.T) {
	f := newFakeSystemd(t)
	path := filepath.Join(f.dir(false), unitName)
	out, err := f.do(uninstallService, serviceOptions{})
	require.NoError(t, err)
	assert.Equal(t, path+" is not there\n", out)
	_, err = f.do(installService, serviceOptions{})
	require.NoError(t, err)
	f.answers(`*is-active*) echo active;; *is-enabled*) echo enabled;;`)
	_, err = f.do(uninstallService, serviceOptions{})
	require.ErrorContains(t, err, "the service is active and enabled; run systemctl --user disable --now executor first, or use --now")
	assert.FileExists(t, path)
	f.calls()
	out, err = f.do(uninstallService, serviceOptions{now: true})
	require.NoError(t, err)
	assert.Contains(t, out, "done: systemctl --user disable --now executor\n"+path+" is removed; the configuration, the token and the state are as they were\n")
	assert.Equal(t, "--user is-active executor.service\n--user is-enabled executor.service\n--user disable --now executor\n--user daemon-reload\n", f.calls())
	assert.NoFileExists(t, path)
	_, err = f.do(serviceStatus, serviceOptions{})
	assert.ErrorContains(t, err, "no unit executor.service is installed; executor service install writes one")
}

func TestServiceWithoutSystemd(t *testing.T) {
	f := newFakeSystemd(t)
	require.NoError(t, os.RemoveAll(f.root+"/run"))
	_, err := f.do(installService, serviceOptions{})
	assert.EqualError(t, err, "systemd does not run on this machine, so that there is nothing to install; executor service print prints the unit for another machine")
	_, err = f.do(serviceStatus, serviceOptions{})
	assert.ErrorContains(t, err, "systemd does not run on this machine")
	f.systemctl = ""
	_, err = f.do(installService, serviceOptions{})
	assert.ErrorContains(t, err, "there is no systemctl on this machine")
	out, err := f.do(printService, serviceOptions{system: true, user: "bob", config: "/c.yaml", hardened: true})
	require.NoError(t, err)
	assert.Equal(t, "bob", keys(out)["User"])
	assert.Equal(t, "yes", keys(out)["NoNewPrivileges"])
	says(t, f.check(t.Context()), doctor.Skip, "there is no systemctl", "")
}

func TestDoctorLooksAtSystemd(t *testing.T) {
	f := newFakeSystemd(t)
	says(t, f.check(t.Context()), doctor.OK, "systemd 252 (252.1); no unit is installed; executor service install makes one", "")
	_, err := f.do(installService, serviceOptions{})
	require.NoError(t, err)
	f.answers(`*is-active*) echo failed; exit 3;; *--version*) echo "systemd 252";;`)
	says(t, f.check(t.Context()), doctor.Warn, "has failed", "journalctl --user -u executor -e")
	f.answers(`*is-active*) echo active;; *--version*) echo "systemd 252";;`)
	says(t, f.check(t.Context()), doctor.Warn, "ends when this user logs out", "loginctl enable-linger")
	require.NoError(t, os.MkdirAll(f.root+"/var/lib/systemd/linger", 0o755))
	require.NoError(t, os.WriteFile(f.root+"/var/lib/systemd/linger/somebody", nil, 0o600))
	says(t, f.check(t.Context()), doctor.OK, "executor.service is active", "")
	f.answers(`*--version*) echo "systemd 232 (232)";;`)
	says(t, f.check(t.Context()), doctor.Warn, "systemd 232 does not know all", "use a token file")
	f.answers(`*--version*) echo oh >&2; exit 1;;`)
	says(t, f.check(t.Context()), doctor.Warn, "systemctl does not work: exit status 1: oh", "systemctl status")
}
