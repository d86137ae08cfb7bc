package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

const maxConfig = 1 << 20

// loadFile applies the file that is named, which has to be there, or the first of
// the default places that is: the user's, else the system's, never both.
func (r *Resolved) loadFile(named string) {
	places := filePlaces()
	if named != "" {
		places = []string{named}
	}
	for i, path := range places {
		raw, err := readConfig(path)
		if named == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r.Settings.Config, r.File = path, path
		if i+1 < len(places) {
			if _, err := os.Stat(places[i+1]); err == nil {
				r.Ignored = places[i+1]
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.Add(Problemf("", "", "configuration file %s does not exist; name another with --config, or make it with executor config init", path))
		case err != nil:
			r.Add(Problemf("", "", "configuration file: %w", err))
		default:
			r.applyFile(path, raw)
		}
		return
	}
}

func readConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file; name one with --config", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%s is larger than 1 MiB, so it is none; name another with --config", path)
	}
	return raw, err
}

// applyFile applies a file's content. Each problem names its line.
func (r *Resolved) applyFile(path string, raw []byte) {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) { // empty, or only comments
		return
	}
	if err == nil {
		if err = decoder.Decode(&more); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		p := Problemf(path, "", "%s", "")
		p.Line, p.Text = syntaxError(err, raw)
		p.Remedy = "correct the syntax of YAML"
		r.Add(p)
		return
	}
	at := func(n *yaml.Node, key, format string, args ...any) {
		p := Problemf(path, key, format, args...)
		p.Line, p.Column = max(1, n.Line), n.Column
		r.Add(p)
	}
	if len(more.Content) > 0 {
		at(&more, "", "a second document begins here; leave --- out, a configuration is one")
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return
	}
	if top.Kind != yaml.MappingNode {
		at(top, "", "want lines of the form key: value")
		return
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, value := top.Content[i], top.Content[i+1]
		t, ok := settingOfKey(name.Value)
		if !ok || name.Kind != yaml.ScalarNode {
			r.Add(unknownKey(path, name))
			continue
		}
		if first := seen[t.flag]; first != nil {
			at(name, "", "key %s is in line %d already; leave one out", t.key(), first.Line)
			continue
		}
		seen[t.flag] = name
		if where, err := refuseTraps(value); err != nil {
			at(where, t.key(), "%w", err)
			continue
		}
		texts, ok := nodeTexts(value)
		if t.object {
			texts, ok = nodeObjects(value)
		}
		if !ok {
			at(value, t.key(), "want a value or a list of values")
			continue
		}
		if (t.flag == "trust" || t.flag == "policy") && len(strings.TrimSpace(strings.Join(texts, ""))) == 0 {
			want := map[string]string{"trust": "say full, ask or read-only", "policy": "say rules"}[t.flag]
			if value.Kind == yaml.ScalarNode || t.flag == "trust" { // an empty list of rules is one
				at(value, t.key(), "empty; leave it out or %s", want)
			}
			continue
		}
		if texts == nil {
			continue
		}
		err := t.setFromFile(&r.Settings, texts, path)
		if err == nil {
			err = t.check(&r.Settings)
		}
		r.Origins[t.flag] = Origin{Kind: originFile, Name: path, Line: value.Line}
		for _, err := range eachError(err) {
			where := value
			var one *elementError
			if errors.As(err, &one) && value.Kind == yaml.SequenceNode && one.index < len(value.Content) {
				where = value.Content[one.index] // for its line
			}
			at(where, t.key(), "%w", err)
		}
	}
	r.judgeWriters(path, seen)
	r.judgeReaders(path, seen)
}

// setFromFile is set for texts of a file, in which paths are relative to it.
func (t setting) setFromFile(s *Settings, texts []string, path string) error {
	if t.path {
		err := CleanPaths(texts, filepath.Dir(path), func(base, path string) string {
			if path == "" || filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(base, path)
		})
		if err != nil {
			return err
		}
	}
	return t.set(s, texts)
}

// judgeWriters looks who else can change the file: with some keys it says what is run, or what may be done.
func (r *Resolved) judgeWriters(path string, seen map[string]*yaml.Node) {
	why, remedy, anybody := cli.ChangedByOthers(path)
	if why == "" {
		return
	}
	for _, t := range table {
		if n := seen[t.flag]; n != nil && (t.code || t.guard) && anybody {
			says := "what is run"
			if t.guard {
				says = "what may be done"
			}
			p := Problemf(path, t.key(), "this says %s, and the file %s; run: %s", says, why, remedy)
			p.Line, p.Column = n.Line, n.Column
			r.Add(p)
			return
		}
	}
	r.Warn(fmt.Sprintf("configuration file %s %s; run: %s", path, why, remedy))
}

func unknownKey(path string, n *yaml.Node) Problem {
	near := nearestKey(n.Value)
	text := fmt.Sprintf("unknown key %q; see executor run --help, with _ for -", n.Value)
	if near != "" {
		text = fmt.Sprintf("unknown key %q; did you mean %q?", n.Value, near)
	}
	p := Problemf(path, n.Value, "%s", text)
	p.Line, p.Column, p.Meant, p.named = n.Line, n.Column, near, true
	return p
}

func settingOfKey(key string) (setting, bool) {
	for _, t := range table {
		if t.key() == key && t.flag != FileFlag {
			return t, true
		}
	}
	return setting{}, false
}

// nearestKey is the key that was probably meant; "" when none is near.
func nearestKey(key string) string {
	var known []string
	for _, t := range table {
		if t.flag != FileFlag {
			known = append(known, t.key())
		}
	}
	return capabilities.Nearest(strings.ReplaceAll(key, "-", "_"), known)
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

// judgeReaders looks who else can read the file: some keys have secrets in them.
func (r *Resolved) judgeReaders(path string, seen map[string]*yaml.Node) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return
	}
	for _, t := range table {
		if n := seen[t.flag]; n != nil && t.private != nil && t.private(&r.Settings) {
			p := Problemf(path, t.key(), "this has secrets in it, and the file has mode %04o, so that others can read it; run: chmod 600 %s", info.Mode().Perm(), path)
			p.Line, p.Column = n.Line, n.Column
			r.Add(p)
		}
	}
}

var errSecretInFlag = errors.New("a secret in a flag is seen by everybody who lists the processes; write it in the configuration file, or in the variable")

// nodeObjects are the texts, as JSON, of a mapping or a list of them; nil for an empty value. A text is one
// already.
func nodeObjects(n *yaml.Node) ([]string, bool) {
	list := []*yaml.Node{n}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, true
	case n.Kind == yaml.ScalarNode:
		return []string{n.Value}, true
	case n.Kind == yaml.SequenceNode:
		list = n.Content
	}
	texts := []string{}
	for _, e := range list {
		if e.Kind != yaml.MappingNode {
			return nil, false
		}
		var value map[string]any
		if err := e.Decode(&value); err != nil {
			return nil, false
		}
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			return nil, false
		}
		texts = append(texts, strings.TrimSpace(text.String()))
	}
	return texts, true
}
