package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// systemConfig is read when the user has none.
const systemConfig = "/etc/executor/config.yaml"

const maxConfig = 1 << 20

// resolve finds the effective settings: flag, then variable, then file, then
// default. Warnings are of what was ignored.
func resolve(flags *pflag.FlagSet, given *settings, environ []string) (s settings, warnings []string, err error) {
	s = defaultSettings()
	variables, warnings := readVariables(environ)

	named := given.Config
	if !flags.Changed(configFlag) {
		named = variables["EXECUTOR_CONFIG"]
	}
	if err := loadFile(&s, named); err != nil {
		return s, warnings, err
	}
	for _, t := range table {
		source := t.variable()
		switch text := variables[source]; {
		case flags.Changed(t.flag):
			source = "--" + t.flag
			reflect.ValueOf(t.value(&s)).Elem().Set(reflect.ValueOf(t.value(given)).Elem())
		case text != "":
			if err := t.set(&s, t.texts(text)); err != nil {
				return s, warnings, cli.Usagef("%s: %w", source, err)
			}
		default:
			continue
		}
		if err := t.check(&s); err != nil {
			return s, warnings, cli.Usagef("%s: %w", source, err)
		}
	}
	s.Capabilities = splitCommas(s.Capabilities)
	s.GitSubcommands = splitCommas(s.GitSubcommands)
	return s, warnings, nil
}

// texts splits the text of a variable.
func (t setting) texts(text string) []string {
	var list []string
	switch _, isList := t.value(&settings{}).(*[]string); {
	case !isList:
		list = []string{text}
	case t.split != nil:
		list = t.split(text)
	default:
		list = filepath.SplitList(text)
	}
	if t.path {
		for i := range list {
			list[i] = expandHome(list[i])
		}
	}
	return list
}

// readVariables picks the EXECUTOR_ variables. An unknown one is a warning, which
// never says its value: it may be a token. An empty one is as if it were not there.
func readVariables(environ []string) (values map[string]string, warnings []string) {
	var known []string
	for _, t := range table {
		known = append(known, t.variable())
	}
	values = map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, variablePrefix) {
			continue
		}
		if slices.Contains(known, name) {
			values[name] = value
			continue
		}
		w := fmt.Sprintf("unknown variable %s is ignored", capabilities.QuoteName(name))
		if near := nearestOf(strings.TrimPrefix(name, variablePrefix), known, variablePrefix); near != "" {
			w += "; did you mean " + near + "?"
		}
		warnings = append(warnings, w)
	}
	slices.Sort(warnings)
	return values, warnings
}

// nearestOf compares names without the prefix that they all have.
func nearestOf(name string, known []string, prefix string) string {
	short := make([]string, len(known))
	for i, k := range known {
		short[i] = strings.TrimPrefix(k, prefix)
	}
	if near := capabilities.Nearest(name, short); near != "" {
		return prefix + near
	}
	return ""
}

// loadFile applies the file that is named, which has to be there, or the first of
// the default places that is.
func loadFile(s *settings, named string) error {
	places := []string{cli.DefaultConfigFile("executor"), systemConfig}
	if named != "" {
		places = []string{named}
	}
	for _, path := range places {
		if path == "" {
			continue
		}
		raw, err := readConfig(path)
		if named == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return cli.Usagef("configuration file %s does not exist", path)
		}
		if err != nil {
			return cli.Usagef("configuration file: %w", err)
		}
		s.Config = path
		return applyFile(s, path, raw)
	}
	return nil
}

func readConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return raw, err
}

// applyFile applies a file's content. Errors name the file and the line.
func applyFile(s *settings, path string, raw []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		line, text := syntaxError(err, raw)
		return cli.Usagef("%s:%d: %s", path, line, text)
	}
	if len(doc.Content) == 0 { // empty, or only comments
		return nil
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil
	}
	at := func(n *yaml.Node, format string, args ...any) error {
		return cli.Usagef("%s:%d: %w", path, n.Line, fmt.Errorf(format, args...))
	}
	if top.Kind != yaml.MappingNode {
		return at(top, "want lines of the form key: value")
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, value := top.Content[i], top.Content[i+1]
		t, ok := settingOfKey(name.Value)
		if !ok {
			return at(name, "unknown key %q%s", name.Value, meant(name.Value))
		}
		if line := seen[t.flag]; line > 0 {
			return at(name, "key %s is in line %d already", t.key(), line)
		}
		seen[t.flag] = name.Line
		texts, ok := nodeTexts(value)
		if t.object {
			texts, ok = nodeObjects(value)
		}
		if !ok {
			return at(value, "%s: want a value or a list of values", t.key())
		}
		if texts == nil {
			continue
		}
		if t.path {
			for i := range texts {
				texts[i] = expandHome(texts[i])
				if texts[i] != "" && !filepath.IsAbs(texts[i]) {
					texts[i] = filepath.Join(filepath.Dir(path), texts[i])
				}
			}
		}
		err := t.set(s, texts)
		if err == nil {
			err = t.check(s)
		}
		var one *elementError
		if errors.As(err, &one) && value.Kind == yaml.SequenceNode && one.index < len(value.Content) {
			value = value.Content[one.index] // for its line
		}
		if err != nil {
			return at(value, "%s: %w", t.key(), err)
		}
	}
	return nil
}

func settingOfKey(key string) (setting, bool) {
	for _, t := range table {
		if t.key() == key && t.flag != configFlag {
			return t, true
		}
	}
	return setting{}, false
}

func meant(key string) string {
	var known []string
	for _, t := range table {
		if t.flag != configFlag {
			known = append(known, t.key())
		}
	}
	if near := capabilities.Nearest(key, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; see executor run --help, with _ for -"
}

// nodeTexts are the texts of a value or a list of values; nil for an empty value.
func nodeTexts(n *yaml.Node) ([]string, bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil, true
		}
		return []string{n.Value}, true
	case yaml.SequenceNode:
		list := []string{}
		for _, e := range n.Content {
			if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
				return nil, false
			}
			list = append(list, e.Value)
		}
		return list, true
	}
	return nil, false
}

func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, rest)
}

func splitCommas(list []string) []string {
	var out []string
	for _, e := range list {
		for part := range strings.SplitSeq(e, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}
