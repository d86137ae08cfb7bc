package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
)

const readme = "../../README.md"

// Every setting is in the help and in the manual of each command that has it, with its
// text; every command has its page.
func TestEverySettingIsInHelpAndManual(t *testing.T) {
	configtest.Isolate(t)
	dir := t.TempDir()
	_, _, err := command(t, "man", dir)
	require.NoError(t, err)
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			each(sub)
		}
		if c.Hidden || c.Name() == "help" {
			return
		}
		raw, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		require.NoError(t, err)
		page, help := string(raw), c.UsageString()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				assert.Contains(t, page, `\fB--`+f.Name+`\fP`, c.CommandPath())
				assert.Contains(t, help, "--"+f.Name, c.CommandPath())
			}
		})
		assert.NotEmpty(t, c.Short)
	}
	root := newRoot()
	each(root)
	for _, name := range []string{"run", "doctor"} {
		c, _, err := root.Find([]string{name})
		require.NoError(t, err)
		settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
		config.AddFlags(settings, new(config.Default()))
		settings.VisitAll(func(f *pflag.Flag) {
			assert.NotNil(t, c.Flags().Lookup(f.Name), "%s --%s", name, f.Name)
		})
	}
}

func TestManualNeedsADirectory(t *testing.T) {
	_, _, err := command(t, "man", filepath.Join(t.TempDir(), "none"))
	assert.Error(t, err)
}

// The manual is the same whenever it is made from the same commit.
func TestManualHasTheDateOfTheCommit(t *testing.T) {
	configtest.Isolate(t)
	t.Setenv("SOURCE_DATE_EPOCH", fmt.Sprint(time.Date(2021, 2, 3, 0, 0, 0, 0, time.UTC).Unix()))
	dir := t.TempDir()
	_, _, err := command(t, "man", dir)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, "executor.1"))
	require.NoError(t, err)
	assert.Contains(t, string(raw), "Feb 2021")
	raw, err = os.ReadFile(filepath.Join(dir, "executor-run.1"))
	require.NoError(t, err)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	assert.NotContains(t, string(raw), home+"/", "nothing is of who makes it")
}

// completed is what a shell is told for a line.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	out, _, err := command(t, append([]string{cobra.ShellCompNoDescRequestCmd}, args...)...)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(out), "\n")
}

func TestCompletion(t *testing.T) {
	configtest.Isolate(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, _, err := command(t, "completion", shell)
		require.NoError(t, err)
		assert.Contains(t, out, "executor", shell)
		assert.Greater(t, len(out), 1000)
	}
	_, _, err := command(t, "completion", "tcsh")
	assert.ErrorContains(t, err, `invalid argument "tcsh" for "executor completion"`)
	assert.Subset(t, completed(t, ""), []string{"run", "config", "doctor", "service", "completion", "demo", "version"})
	assert.NotContains(t, completed(t, ""), "man", "it is for packages")
	assert.Subset(t, completed(t, "config", ""), []string{"init", "check", "show"})
	assert.Subset(t, completed(t, "run", "--capabilities", ""), []string{"shell", "-shell", "git", "files"})
	assert.Subset(t, completed(t, "run", "--capabilities", "shell,"), []string{"shell,git", "shell,-git"})
	assert.Equal(t, []string{"debug", "info", "warn", "error", ":4"}, completed(t, "run", "--log-level", ""))
	assert.Equal(t, []string{"shared", "session", ":4"}, completed(t, "doctor", "--workspace", ""))
	assert.Equal(t, []string{"text", "json", ":4"}, completed(t, "doctor", "--output", ""))
	assert.Equal(t, []string{":16"}, completed(t, "run", "--root", ""), "directories")
	assert.Equal(t, []string{"yaml", "yml", ":8"}, completed(t, "run", "--config", ""), "files of that kind")
	assert.Equal(t, []string{":0"}, completed(t, "run", "--token-file", ""), "files")
	assert.Contains(t, completed(t, "completion", ""), "fish")
}

// A shell takes the completion.
func TestBashTakesTheCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	out, _, err := command(t, "completion", "bash")
	require.NoError(t, err)
	c := exec.Command(bash, "-n")
	c.Stdin = strings.NewReader(out)
	said, err := c.CombinedOutput()
	assert.NoError(t, err, string(said))
}

// What the packages have is there, or is made by their build; their scripts do nothing
// where no systemd runs.
func TestPackaging(t *testing.T) {
	raw, err := os.ReadFile("packaging/nfpm.yaml")
	require.NoError(t, err)
	var config struct {
		Contents []struct{ Src, Dst string }
		Scripts  map[string]string
	}
	require.NoError(t, yaml.Unmarshal(raw, &config))
	build, err := os.ReadFile("packaging/build.sh")
	require.NoError(t, err)
	units := 0
	for _, c := range config.Contents {
		if made, ok := strings.CutPrefix(c.Src, "bin/packages/root/"); ok {
			assert.Contains(t, string(build), "$root/"+strings.TrimSuffix(made, "/"), c.Src)
			continue
		}
		if c.Src != "" {
			assert.FileExists(t, filepath.Join("..", "..", c.Src))
		}
		if strings.HasSuffix(c.Src, ".service") {
			units++
		}
	}
	made, err := filepath.Glob("internal/service/*.service")
	require.NoError(t, err)
	assert.Len(t, made, units)
	assert.NotRegexp(t, `dst: /etc/.*\n *file`, regexp.MustCompile(`(?s)- dst: /etc/executor\n.*`).ReplaceAllString(string(raw), ""), "no configuration comes with a package")
	for _, script := range config.Scripts {
		path := filepath.Join("..", "..", script)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, word := range []string{"useradd", "adduser", "mkdir", "rm ", "enable ", "restart"} {
			for line := range strings.Lines(string(text)) {
				assert.False(t, !strings.HasPrefix(line, "#") && strings.Contains(line, word), "%s: %s", script, line)
			}
		}
		if _, err := os.Stat("/run/systemd/system"); err != nil {
			for _, arg := range []string{"configure", "remove", "1", "0"} {
				out, err := exec.Command("/bin/sh", path, arg).CombinedOutput()
				assert.NoError(t, err, "%s %s: %s", script, arg, out)
				assert.Empty(t, string(out))
			}
		}
	}
}

// What the README gives MCP clients to read is what they can, and what this program takes.
func TestREADMEForMCPClients(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "## Use it from an MCP client\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "```json\n")[1:]
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		var config map[string]map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		}
		require.NoError(t, json.Unmarshal([]byte(block), &config))
		for _, servers := range config {
			assert.Equal(t, "executor", servers["executor"].Command)
			c, rest, err := newRoot().Find(servers["executor"].Args)
			require.NoError(t, err)
			assert.Equal(t, "demo", c.Name())
			assert.NoError(t, c.ParseFlags(rest))
		}
	}
}
