package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// SystemFile is read when the user has none.
const SystemFile = "/etc/executor/config.yaml"

// filePlaces are where a file is looked for when none is named.
func filePlaces() []string {
	if own := cli.DefaultConfigFile("executor"); own != "" {
		return []string{own, SystemFile}
	}
	return []string{SystemFile}
}

// ExpandHome puts the home in the place of ~ and ~/, where there is one.
func ExpandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	if suffix := strings.HasPrefix(rest, ":"); suffix { // ~:ro
		return home + rest
	}
	return filepath.Join(home, rest)
}

// CleanPaths makes of a path in a flag, a variable or the file what is meant by it: ~/
// is the home, and what is relative is so to base, or to the current directory when that
// is empty. A shell would make something of the rest; here it would be a strange name.
func CleanPaths(list []string, base string, join func(base, path string) string) error {
	for i, text := range list {
		switch first, _, _ := strings.Cut(text, "/"); {
		case first == "~", strings.HasPrefix(text, "~/"), slices.Contains([]string{"~:ro", "~:rw"}, text):
			list[i] = ExpandHome(text)
			if list[i] == text {
				return fmt.Errorf("%q: there is no home directory, HOME is not set; write the whole path", text)
			}
		case strings.HasPrefix(text, "~"):
			return fmt.Errorf("%q: only ~/ is read, as your own home directory; write the whole path, or ./%s for a file of that name", text, text)
		case strings.HasPrefix(text, "$"):
			return fmt.Errorf("%q: variables are not read in paths; write the whole path, or one that begins with ~/", text)
		}
		if base != "" {
			list[i] = join(base, list[i])
		}
	}
	return nil
}

// Roots reads the setting root, DIR and DIR:ro, and looks whether the directories are there; none is the current
// directory.
func Roots(list []string) ([]capabilities.Root, error) {
	if len(list) == 0 {
		list = []string{"."}
	}
	var roots []capabilities.Root
	for _, text := range list {
		dir, readOnly := strings.CutSuffix(text, ":ro")
		if !readOnly {
			dir = strings.TrimSuffix(dir, ":rw")
		}
		if dir == "" {
			return nil, cli.Usagef("root %q: the directory is missing", text)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, cli.Usagef("root %s: %w", capabilities.QuoteName(dir), err)
		}
		info, err := os.Stat(abs)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, cli.Usagef("root %s does not exist; make it, or name another with --root", capabilities.QuoteName(abs))
		case err != nil:
			return nil, cli.Usagef("root: %w", err)
		case !info.IsDir():
			return nil, cli.Usagef("root %s is not a directory", capabilities.QuoteName(abs))
		}
		roots = append(roots, capabilities.Root{Path: abs, ReadOnly: readOnly})
	}
	return roots, nil
}

// RootNames are the roots as settings name them.
func RootNames(roots []capabilities.Root) []string {
	list := make([]string, len(roots))
	for i, r := range roots {
		list[i] = r.Path
		if r.ReadOnly {
			list[i] += ":ro"
		}
	}
	return list
}
