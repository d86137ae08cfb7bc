package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is commented out is the default: with every line taken in, nothing changes.
func TestConfigInitHasEveryDefault(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	given := Default()
	flags := pflag.NewFlagSet("init", pflag.ContinueOnError)
	AddFlags(flags, &given)
	require.NoError(t, flags.Parse([]string{"--config", path}))
	_, err := Init(flags, &given, false)
	require.NoError(t, err)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, row := range table {
		if row.flag != FileFlag {
			assert.Regexp(t, "(?m)^#"+row.key()+":", string(raw))
		}
	}
	for line := range strings.Lines(string(raw)) {
		assert.LessOrEqual(t, len([]rune(line)), commentWidth+2, "it can be read in a terminal")
	}
	all := regexp.MustCompile(`(?m)^#(\w+:)`).ReplaceAllString(string(raw), "$1")
	require.NoError(t, os.WriteFile(path, []byte(all), 0o600))
	r := resolveArgs(t, "--config", path)
	require.Empty(t, r.Problems)
	want := Default()
	want.Config = path
	assert.True(t, reflect.DeepEqual(want, r.Settings))
	assert.Greater(t, len(r.Origins), 10)
}

func TestUserWinsOverSystem(t *testing.T) {
	home := isolate(t)
	assert.Equal(t, []string{filepath.Join(home, ".config", "executor", "config.yaml"), SystemFile}, filePlaces())
	t.Setenv("HOME", "")
	assert.Equal(t, []string{SystemFile}, filePlaces())
}
