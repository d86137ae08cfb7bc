package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agent-executor/executor/capabilities"
)

// Resolve finds the effective settings: flag, then variable, then file, then
// default. Warnings are of what was ignored. The error is of the first problem.
func Resolve(flags *pflag.FlagSet, given *Settings, environ []string) (s Settings, warnings []string, err error) {
	r := ResolveAll(flags, given, environ)
	return r.Settings, r.Warnings, r.Err()
}

// ResolveAll is Resolve with all that is wrong, and with where everything came from.
func ResolveAll(flags *pflag.FlagSet, given *Settings, environ []string) *Resolved {
	r := &Resolved{Settings: Default(), Origins: map[string]Origin{}}
	s := &r.Settings
	variables, warnings := ReadVariables(environ)
	r.Warnings = warnings

	named := []string{given.Config}
	if !flags.Changed(FileFlag) {
		named[0] = variables["EXECUTOR_CONFIG"]
	}
	if err := CleanPaths(named, "", nil); err != nil {
		r.Add(Problemf("--"+FileFlag, "", "%w", err))
	} else {
		r.loadFile(named[0])
	}
	for _, t := range table {
		if t.flag == FileFlag { // done
			continue
		}
		o := Origin{Kind: originVariable, Name: t.variable()}
		var err error
		switch text := variables[o.Name]; {
		case flags.Changed(t.flag):
			o = Origin{Kind: originFlag, Name: "--" + t.flag}
			reflect.ValueOf(t.value(s)).Elem().Set(reflect.ValueOf(t.value(given)).Elem())
			if err = t.cleanFlag(s); err == nil && t.private != nil && t.private(s) {
				err = errSecretInFlag
			}
		case text != "":
			var texts []string
			if texts, err = t.texts(text); err == nil {
				err = t.set(s, texts)
			}
		default:
			continue
		}
		if err == nil {
			err = t.check(s)
		}
		r.Origins[t.flag] = o
		if err != nil {
			r.Add(Problemf(o.Name, t.key(), "%w", err))
		}
	}
	s.Capabilities = splitCommas(s.Capabilities)
	s.GitSubcommands = splitCommas(s.GitSubcommands)
	return r
}

// cleanFlag is CleanPaths for what a flag has set.
func (t setting) cleanFlag(s *Settings) error {
	if !t.path {
		return nil
	}
	switch v := t.value(s).(type) {
	case *string:
		one := []string{*v}
		err := CleanPaths(one, "", nil)
		*v = one[0]
		return err
	case *[]string:
		*v = slices.Clone(*v) // what was given stays as it was
		return CleanPaths(*v, "", nil)
	}
	return nil
}

// texts splits the text of a variable.
func (t setting) texts(text string) ([]string, error) {
	var list []string
	switch _, isList := t.value(&Settings{}).(*[]string); {
	case !isList:
		list = []string{text}
	case t.split != nil:
		list = t.split(text)
	default:
		list = filepath.SplitList(text)
	}
	if t.path {
		return list, CleanPaths(list, "", nil)
	}
	return list, nil
}

// ReadVariables picks the EXECUTOR_ variables. An unknown one is a warning, which
// never says its value: it may be a token. An empty one is as if it were not there.
func ReadVariables(environ []string) (values map[string]string, warnings []string) {
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
