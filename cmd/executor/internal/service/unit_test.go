package service

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
)

var update = flag.Bool("update", false, "write the files that are made from the code")

// current compares a file that is made from the code, or a part of it, or writes it.
func current(t *testing.T, path, have, want string) {
	t.Helper()
	if *update && have != want {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, have, "%s is not up to date; run: make docs", path)
}

// The units of the packages are made from the code, as those of service install are.
func TestUnitsAreUpToDate(t *testing.T) {
	for name, u := range packagedUnits() {
		raw, err := os.ReadFile(name)
		if !*update {
			require.NoError(t, err)
		}
		current(t, name, string(raw), u.text())
	}
}

// keys are the assignments of a unit.
func keys(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok && !strings.HasPrefix(key, "#") {
			m[key] = value
		}
	}
	return m
}

func TestUnits(t *testing.T) {
	for name, u := range packagedUnits() {
		k := keys(u.text())
		for key, want := range map[string]string{
			"Type": "notify", "TimeoutStartSec": "infinity", "KillMode": "mixed", "Delegate": "yes", "Restart": "always", "RestartPreventExitStatus": "2 3 4 5",
			"OOMPolicy": "continue", "ExecReload": "/bin/kill -HUP $MAINPID", "StartLimitIntervalSec": "0", // (cases 106, 126, 128)
		} {
			assert.Equal(t, want, k[key], "%s: %s", name, key)
		}
		stop, err := time.ParseDuration(k["TimeoutStopSec"] + "s")
		require.NoError(t, err)
		const rest = 15 * time.Second // ending the sessions, delivering what is owed
		assert.GreaterOrEqual(t, stop, config.Default().DrainTimeout+rest)
		fields := strings.Fields(k["ExecStart"])
		require.GreaterOrEqual(t, len(fields), 2)
		assert.Equal(t, "run", fields[1])
		for _, key := range []string{"NoNewPrivileges", "ProtectSystem", "RestrictNamespaces", "SystemCallFilter", "PrivateDevices"} {
			assert.Empty(t, k[key], "%s: %s would end sudo in commands", name, key)
		}
		if u.system {
			assert.True(t, strings.HasPrefix(k["OOMScoreAdjust"], "-")) // (case 129)
			assert.Equal(t, "0700", k["StateDirectoryMode"])
			assert.NotEmpty(t, k["User"])
			assert.True(t, strings.HasPrefix(k["LoadCredential"], "token:/etc/executor/"))
		} else {
			assert.Empty(t, k["OOMScoreAdjust"], "a user may not")
			assert.Empty(t, k["StateDirectory"])
			assert.Empty(t, k["User"])
		}
	}
	hardened := keys(unit{system: true, hardened: true, program: "/x", config: "/y", user: "u", writable: []string{"/a b", "/c%d"}}.text())
	assert.Equal(t, "yes", hardened["NoNewPrivileges"])
	assert.Equal(t, `"/a b" /c%%d -/tmp -/var/tmp`, hardened["ReadWritePaths"])
	assert.Empty(t, hardened["LoadCredential"])
	for _, key := range []string{"MemoryDenyWriteExecute", "ProtectControlGroups", "RestrictNamespaces", "ProtectHome", "SystemCallFilter", "PrivateDevices"} {
		assert.Empty(t, hardened[key], key)
	}
}

func TestWordsOfUnits(t *testing.T) {
	for word, want := range map[string]string{
		"/usr/bin/x": "/usr/bin/x", "/a b": `"/a b"`, "/100%": "/100%%", "$HOME": "$$HOME", `a"b\c`: `"a\"b\\c"`, "a\tb\n": `"a\x09b\x0a"`, "": `""`, "/ü'": `"/ü'"`, "a;b": `"a;b"`,
	} {
		assert.Equal(t, want, unitWord(word, false))
	}
	assert.Equal(t, "/etc/%i.yaml", unitWord("/etc/%i.yaml", true))
}

func TestProgramsThatSystemdDoesNotTake(t *testing.T) {
	for _, path := range []string{`/a"b`, "/a'b", `/a\b`, "/a$b", "/a\nb"} {
		assert.ErrorContains(t, refuseProgram(path), "put the program elsewhere")
	}
	assert.NoError(t, refuseProgram("/100% of/ü b"))
}

func TestSeal(t *testing.T) {
	text := unit{}.text()
	assert.True(t, sealed(seal(text)))
	assert.False(t, sealed(text))
	assert.False(t, sealed(seal(text)+"\n"))
	assert.False(t, sealed(strings.Replace(seal(text), "Restart=always", "Restart=no", 1)))
	assert.False(t, sealed(""))
}

// systemd itself takes the units, with paths that have spaces and % in them too.
func TestSystemdTakesTheUnits(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "100% of", "the executor")
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	odd := unit{system: true, program: program, config: dir + "/50% $HOME.yaml", user: "root", token: dir + "/100%/token", stop: time.Minute}
	hardened := odd
	hardened.hardened, hardened.writable = true, []string{dir + "/a b", dir + "/c%d"}
	units := map[string]unit{"odd.service": odd, "hardened.service": hardened}
	for name, u := range packagedUnits() {
		u.program = program
		units[name] = u
	}
	for name, u := range units {
		where := filepath.Join(t.TempDir(), strings.Replace(name, "@", "@root", 1))
		require.NoError(t, os.WriteFile(where, []byte(u.text()), 0o644))
		args := []string{"verify", "--man=no", where}
		if !u.system {
			args = append([]string{"--user"}, args...)
		}
		c := exec.Command(verify, args...)
		c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		out, err := c.CombinedOutput()
		own := regexp.MustCompile(`(?m)^.*`+regexp.QuoteMeta(filepath.Base(where))+`.*$`).FindAllString(string(out), -1)
		assert.Empty(t, own, "%s: %s", name, out)
		if u.system {
			assert.NoError(t, err, "%s: %s", name, out)
		}
	}
}
