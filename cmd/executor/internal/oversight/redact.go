package oversight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor/redact"
	"github.com/agent-executor/executor/protocol"
)

// maxRedactFile is how much of a file of --redact is read.
const maxRedactFile = 64 << 10

// lead is how much of a secret may be seen while the rest of it has not come: a prompt that ends as a secret
// begins is not held back.
const lead = 1

// Learn tells the redactor what the settings name, and what the executor's own environment has under names of
// secrets. What is too short to be looked for is a warning.
func Learn(s *config.Settings, hide *cli.Redactor, environ []string) (warnings []string, err error) {
	known := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		known[name] = value
		if redact.Sensitive(name) && !isPath(value) {
			hide.Secrets().Add(value)
		}
	}
	hide.Secrets().Add(config.MCPSecrets(s)...)
	for _, name := range s.Redact {
		value, is := known[name]
		if strings.ContainsRune(name, os.PathSeparator) {
			if value, err = redactFile(name); err != nil {
				return warnings, err
			}
		} else if !is {
			warnings = append(warnings, fmt.Sprintf("redact: there is no variable %s, so there is nothing to redact; a file is named by its path, like ./%[1]s", capabilities.QuoteName(name)))
			continue
		}
		if n := hide.Secrets().Add(value); n > 0 {
			warnings = append(warnings, fmt.Sprintf("redact: what %s has is shorter than %d bytes, and is not redacted: it would tear up ordinary text", capabilities.QuoteName(name), redact.MinLength))
		}
	}
	return warnings, nil
}

func redactFile(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", cli.Usagef("redact: the file %s does not exist", capabilities.QuoteName(path))
	}
	if err != nil {
		return "", cli.Usagef("redact: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cli.Usagef("redact: %s is not a file", capabilities.QuoteName(path))
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxRedactFile+1))
	if err != nil {
		return "", cli.Usagef("redact: %w", err)
	}
	if len(raw) > maxRedactFile {
		return "", cli.Usagef("redact: %s is larger than 64 KiB; name a file that has only a secret in it", capabilities.QuoteName(path))
	}
	return string(raw), nil
}

// isPath says whether a value is the name of a file: of a key, say, and not the key.
func isPath(value string) bool {
	if !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~/") && !strings.HasPrefix(value, "./") {
		return false
	}
	_, err := os.Stat(value)
	return err == nil || value[0] != '/'
}

// sessionSecrets is a capability that nobody sees: while a session lives, what its environment has under names
// of secrets is redacted.
type sessionSecrets struct{ secrets *redact.Redactor }

// SessionSecrets makes it.
func SessionSecrets(r *redact.Redactor) capabilities.Capability { return sessionSecrets{r} }

type releaseKey struct{}

// Name is for errors only: nothing is advertised.
func (sessionSecrets) Name() string { return "session-secrets" }

// Install implements capabilities.Capability.
func (c sessionSecrets) Install(r *capabilities.Registrar) error {
	r.OnSessionStart(func(_ context.Context, s *capabilities.Session) error {
		var values []string
		for name, value := range s.Env() {
			if redact.Sensitive(name) && !isPath(value) {
				values = append(values, value)
			}
		}
		for _, m := range s.Assign().MCPServers {
			for _, value := range m.Transport.SecretEnv {
				values = append(values, value)
			}
		}
		s.SetValue(releaseKey{}, c.secrets.Hold(values...))
		return nil
	})
	r.OnSessionEnd(func(s *capabilities.Session) {
		if release, ok := s.Value(releaseKey{}).(func()); ok {
			release()
		}
	})
	return nil
}

var _ standard.Masker = (*redact.Stream)(nil)

// Masker is what changes the output of commands; nil for nothing.
func Masker(s *config.Settings, hide *cli.Redactor) func(env []string) standard.Masker {
	if !s.RedactOutput {
		return nil
	}
	return func(env []string) standard.Masker {
		known := hide.Secrets().NewStream(lead)
		var values []string
		for _, v := range env {
			if name, value, _ := strings.Cut(v, "="); redact.Sensitive(name) && len(value) >= redact.MinLength && !isPath(value) {
				values = append(values, value)
			}
		}
		if len(values) == 0 {
			return known
		}
		return both{known, redact.New(values...).NewStream(lead)}
	}
}

// both is one masker behind another.
type both struct{ first, second *redact.Stream }

func (b both) Mask(p []byte) []byte { return b.second.Mask(b.first.Mask(p)) }

func (b both) Flush() []byte {
	out := slices.Clone(b.second.Mask(b.first.Flush()))
	return append(out, b.second.Flush()...)
}

// MaskResults changes secrets in what tools return into asterisks.
func MaskResults(r *redact.Redactor) func(capabilities.ToolHandler) capabilities.ToolHandler {
	return func(next capabilities.ToolHandler) capabilities.ToolHandler {
		return func(ctx context.Context, call *capabilities.Call) (protocol.ToolOutput, error) {
			out, err := next(ctx, call)
			for i := range out.Content {
				c := &out.Content[i]
				c.Text, c.URL, c.Name, c.Data = r.MaskString(c.Text), r.MaskString(c.URL), r.MaskString(c.Name), r.Mask(c.Data)
			}
			for i := range out.Mutations {
				m := &out.Mutations[i]
				m.Path, m.From = r.MaskString(m.Path), r.MaskString(m.From)
			}
			out.Structured = maskStructured(r, out.Structured)
			return out, maskError(r, err)
		}
	}
}

// maskStructured masks what is in a value, each text of it as it is, not as JSON writes it: a secret that is broken
// over lines has other bytes there. A value without secrets stays what it is.
func maskStructured(r *redact.Redactor, v any) any {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return v // whoever sends it has the same error
	}
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	var plain any
	if numbers.Decode(&plain) != nil {
		return v
	}
	if masked, changed := maskValue(r, plain); changed {
		return masked
	}
	return v
}

// maskValue is maskStructured of a decoded value. A number that is a secret becomes a text.
func maskValue(r *redact.Redactor, v any) (masked any, changed bool) {
	switch v := v.(type) {
	case string:
		text := r.MaskString(v)
		return text, text != v
	case json.Number:
		if text := r.MaskString(v.String()); text != v.String() {
			return text, true
		}
	case []any:
		for i := range v {
			m, c := maskValue(r, v[i])
			v[i], changed = m, changed || c
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, member := range v {
			m, c := maskValue(r, member)
			text := r.MaskString(name)
			all[text], changed = m, changed || c || text != name
		}
		return all, changed
	}
	return v, changed
}

// maskError is err with its text masked; what kind it is stays.
func maskError(r *redact.Redactor, err error) error {
	if err == nil {
		return nil
	}
	text := r.MaskString(err.Error())
	if text == err.Error() {
		return err
	}
	var known *protocol.Error
	if errors.As(err, &known) {
		masked := *known
		masked.Message = r.MaskString(known.Message)
		return &masked
	}
	return errors.New(text)
}
