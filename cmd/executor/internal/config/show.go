package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/redact"
)

// shown is one setting as it is shown.
type shown struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // durations are texts, as they are written
	Origin Origin `json:"origin"`
}

// Show prints the effective settings without what may be secret, and where each comes from.
func Show(r *Resolved, w io.Writer, asJSON bool) error {
	var list []shown
	for _, t := range table {
		if t.flag != FileFlag {
			list = append(list, shown{t.key(), t.shownValue(&r.Settings), r.originOf(t.flag)})
		}
	}
	if asJSON {
		return cli.WriteJSON(w, struct {
			File     string  `json:"file"` // "" = none
			Ignored  string  `json:"ignored_file,omitempty"`
			Settings []shown `json:"settings"`
		}{r.File, r.Ignored, list})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# file: %s\n", fileOrNone(r.File))
	if r.Ignored != "" {
		fmt.Fprintf(&b, "# not read: %s\n", r.Ignored)
	}
	for _, e := range list {
		fmt.Fprintf(&b, "%-47s # %s\n", keyLine(e.Key, e.Value), e.Origin)
	}
	_, err := io.WriteString(w, cli.Text(b.String()))
	return err
}

// plain is the value of a setting as JSON and YAML have it.
func (t setting) plain(s *Settings) any {
	switch v := t.value(s).(type) {
	case *time.Duration:
		return v.String()
	case *[]string:
		if !t.object {
			return append([]string{}, *v...)
		}
		list := []any{}
		for _, text := range *v {
			var one any
			if json.Unmarshal([]byte(text), &one) != nil {
				one = text
			}
			if many, ok := one.([]any); ok {
				list = append(list, many...)
			} else {
				list = append(list, one)
			}
		}
		return list
	default:
		return reflect.ValueOf(v).Elem().Interface()
	}
}

// shownValue is plain without what may be secret.
func (t setting) shownValue(s *Settings) any {
	value := t.plain(s)
	if t.flag == "token-command" {
		for i := range s.TokenCommands {
			value.([]string)[i] = "(a command, not shown)"
		}
		return value
	}
	return withoutSecrets(value)
}

// secretWords finds NAME=VALUE and the like where the name is that of a secret.
var secretWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)((?:token|secret|passw(?:or)?d|credential|bearer|api[_-]?key|auth|_key)[\w-]*["']?(?:\s*[=:]\s*|\s+)["']?(?:(?:bearer|basic|token)\s+)?)[^\s"']+`)
})

// withoutSecrets goes through all texts of a value.
func withoutSecrets(value any) any {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "://") && !strings.ContainsAny(v, " \t") {
			if u, err := url.Parse(v); err != nil || u.User != nil || u.RawQuery != "" {
				return RedactURL(v)
			}
		}
		return secretWords().ReplaceAllString(v, "${1}…")
	case []string:
		list, hideNext := make([]string, len(v)), false
		for i, text := range v {
			if list[i] = withoutSecrets(text).(string); hideNext {
				list[i] = "…"
			}
			hideNext = secretFlag().MatchString(text)
		}
		return list
	case []any:
		list, hideNext := make([]any, len(v)), false
		for i, e := range v {
			if list[i] = withoutSecrets(e); hideNext {
				list[i] = "…"
			}
			text, _ := e.(string)
			hideNext = secretFlag().MatchString(text)
		}
		return list
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if out[k] = withoutSecrets(e); k == "secret_env" || k == "env" {
				out[k] = hideValues(e, k == "secret_env")
			}
		}
		return out
	}
	return value
}

// hideValues is a mapping without its values, all or those with the name of a secret.
func hideValues(value any, all bool) any {
	out := map[string]any{}
	of, ok := value.(map[string]any)
	if !ok {
		return "…"
	}
	for k, e := range of {
		if out[k] = withoutSecrets(e); all || redact.Sensitive(k) {
			out[k] = "…"
		}
	}
	return out
}

// secretFlag is a word behind which a secret stands as a word of its own.
var secretFlag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^--?[\w-]*(?:token|secret|passw(?:or)?d|credential|api-?key)$`)
})

// yamlValue writes a value in one line.
func yamlValue(value any) string {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		return ""
	}
	var flow func(n *yaml.Node)
	flow = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			n.Style &^= yaml.LiteralStyle | yaml.FoldedStyle
			if strings.ContainsAny(n.Value, "\n\r") {
				n.Style = yaml.DoubleQuotedStyle
			}
		} else {
			n.Style = yaml.FlowStyle
		}
		for _, c := range n.Content {
			flow(c)
		}
	}
	flow(&n)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	if err := e.Encode(&n); err != nil {
		return ""
	}
	_ = e.Close()
	return strings.TrimSpace(out.String())
}

// RedactURL leaves out what may be secret in a URL.
func RedactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "[not a URL]"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}
