package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// FileArgument is what names the file to other commands, where they would not find it.
func FileArgument(path string) string {
	for _, place := range filePlaces() {
		if place == path {
			return ""
		}
		if _, err := os.Stat(place); err == nil {
			break // they would find this one first
		}
	}
	return " --config " + ShellWord(path)
}

// ShellWord quotes a word for a line that is to be copied into a shell.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@") == "" {
		return word
	}
	if name := capabilities.QuoteName(word); name != word {
		return name
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Init writes the file and returns its path.
func Init(flags *pflag.FlagSet, given *Settings, force bool) (string, error) {
	path := given.Config
	if path == "" {
		path = os.Getenv("EXECUTOR_CONFIG")
	}
	if path == "" {
		if path = cli.DefaultConfigFile("executor"); path == "" {
			return "", cli.Usagef("there is no place for the file: HOME is not set; name one with --config FILE")
		}
	}
	named := []string{path}
	if err := CleanPaths(named, "", nil); err != nil {
		return "", cli.Usagef("--config: %w", err)
	}
	path, err := filepath.Abs(named[0])
	if err != nil {
		return "", err
	}
	text, err := configText(flags, given)
	if err != nil {
		return "", err
	}
	return path, writeConfig(path, text, force)
}

// configText is the content of the file.
func configText(flags *pflag.FlagSet, given *Settings) (string, error) {
	var b strings.Builder
	b.WriteString(`# The configuration of executor run. Every setting is a flag, a variable and a key here:
# --state-dir, EXECUTOR_STATE_DIR, state_dir. A flag wins over a variable, a variable over this file.
# What is commented out is the default. Relative paths are relative to this file; ~/ is the home.
# executor config check finds mistakes, executor config show says what is in force and why.
`)
	for _, t := range table {
		if t.flag == FileFlag {
			continue
		}
		_, usage := pflag.UnquoteUsage(flags.Lookup(t.flag))
		fmt.Fprintf(&b, "\n%s", comment(usage))
		if !flags.Changed(t.flag) {
			fmt.Fprintf(&b, "#%s\n", t.line(ptrTo(Default())))
			continue
		}
		s := Default()
		reflect.ValueOf(t.value(&s)).Elem().Set(reflect.ValueOf(t.value(given)).Elem())
		err := t.cleanFlag(&s)
		if err == nil {
			err = t.check(&s)
		}
		if err == nil {
			err = t.absolute(&s)
		}
		if err != nil {
			return "", cli.Usagef("--%s: %w", t.flag, err)
		}
		b.WriteString(t.line(&s) + "\n")
	}
	return b.String(), nil
}

func ptrTo[T any](v T) *T { return &v }

// line is a setting as the file has it. One without a value has none there either.
func (t setting) line(s *Settings) string {
	value := t.plain(s)
	if t.flag == "state-dir" && value == cli.DefaultStateDir("executor") {
		value = "" // it follows from who runs it
	}
	return keyLine(t.key(), value)
}

// keyLine is a key with its value; what is empty is left out, which is the default.
func keyLine(key string, value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.String && v.Len() == 0 || v.Kind() == reflect.Slice && v.Len() == 0 {
		if key == "policy" {
			return key + ": []" // which says it: one that is left empty is a problem
		}
		return key + ":"
	}
	return key + ": " + yamlValue(value)
}

// absolute makes the paths of a flag, which are relative to the current directory, ones
// that are right in a file.
func (t setting) absolute(s *Settings) (err error) {
	if !t.path {
		return nil
	}
	switch v := t.value(s).(type) {
	case *string:
		if *v != "" {
			*v, err = filepath.Abs(*v)
		}
	case *[]string:
		for i := range *v {
			if (*v)[i], err = filepath.Abs((*v)[i]); err != nil {
				break
			}
		}
	}
	return err
}

const commentWidth = 100

// comment breaks a text into lines of comment.
func comment(text string) string {
	var b strings.Builder
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > commentWidth && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// writeConfig writes the file as a whole or not at all. Only the system's are for others
// to read: their services run as users of their own, and no secret is in them.
func writeConfig(path, text string, force bool) error {
	dirMode, mode := fs.FileMode(0o700), fs.FileMode(0o600)
	if filepath.Dir(path) == filepath.Dir(SystemFile) {
		dirMode, mode = 0o755, 0o644
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("directory of the configuration: %w; name another place with --config", err)
	}
	f, err := os.CreateTemp(dir, ".config-*")
	if err != nil {
		return fmt.Errorf("configuration file: %w; name another place with --config", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil && force {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real // a link stays one
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return cli.Usagef("%s is not a file; remove it, or name another place with --config", path)
		}
		err = os.Rename(f.Name(), path)
	} else if err == nil {
		err = os.Link(f.Name(), path) // unlike a rename it replaces nothing
	}
	if errors.Is(err, fs.ErrExist) {
		return cli.Usagef("%s is there already; edit it, replace it with --force, or name another place with --config", path)
	}
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	return nil
}
