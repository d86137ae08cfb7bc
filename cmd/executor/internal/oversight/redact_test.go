package oversight

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
)

func TestLearn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(file, []byte("of-the-file-0123\n"), 0o600))
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, make([]byte, maxRedactFile+1), 0o600))
	environ := []string{"GITHUB_TOKEN=of-the-token-0123", "PLAIN=of-a-plain-name", "SSH_KEY=" + file, "OTHER=is-not-secret", "SHORT=abc", "A_KEY=short"}

	s := config.Default()
	s.Redact = []string{"PLAIN", file, "SHORT", "MISSING"}
	hide := cli.NewRedactor(io.Discard)
	warnings, err := Learn(&s, hide, environ)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	assert.Contains(t, warnings[0], "SHORT has is shorter than 8 bytes")
	assert.Contains(t, warnings[1], "no variable MISSING")
	assert.NotContains(t, strings.Join(warnings, ""), "abc")
	assert.Equal(t, "[redacted] [redacted] [redacted] is-not-secret "+file, hide.Redact("of-the-token-0123 of-a-plain-name of-the-file-0123 is-not-secret "+file))

	for path, says := range map[string]string{dir: "is not a file", large: "larger than 64 KiB", dir + "/none": "does not exist"} {
		s.Redact = []string{path}
		_, err := Learn(&s, hide, nil)
		assert.ErrorContains(t, err, says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err))
	}
}

func TestMaskResults(t *testing.T) {
	hide := cli.NewRedactor(io.Discard)
	hide.Add("the-secret-0123")
	var err error
	handler := MaskResults(hide.Secrets())(func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
		return protocol.ToolOutput{Content: []protocol.Content{{Type: protocol.ContentText, Text: "a the-secret-0123 b"}, {Type: "image", Data: []byte("the-secret-0123")}},
			Structured: map[string]any{"stdout": "the-secret-0123", "exit_code": 3}}, err
	})
	out, got := handler(t.Context(), nil)
	require.NoError(t, got)
	assert.Equal(t, "a *************** b", out.Content[0].Text)
	assert.Equal(t, "***************", string(out.Content[1].Data))
	assert.JSONEq(t, `{"stdout":"***************","exit_code":3}`, string(inJSON(t, out.Structured)))

	handler3 := MaskResults(hide.Secrets())(func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
		return protocol.ToolOutput{Mutations: []protocol.Mutation{{Op: "move", Path: "d/the-secret-0123", From: "the-secret-0123"}}}, nil
	})
	out, _ = handler3(t.Context(), nil)
	assert.Equal(t, []protocol.Mutation{{Op: "move", Path: "d/***************", From: "***************"}}, out.Mutations)

	broken := map[string]any{"lines": []any{"the-sec\nret-0123", 1}, "kept": 12345678901234567, "the-secret-0123": true}
	handler2 := MaskResults(hide.Secrets())(func(context.Context, *capabilities.Call) (protocol.ToolOutput, error) {
		return protocol.ToolOutput{Structured: broken}, nil
	})
	out, got = handler2(t.Context(), nil)
	require.NoError(t, got)
	text := string(inJSON(t, out.Structured))
	assert.NotContains(t, text, "sec")
	assert.NotContains(t, text, "0123\"")
	assert.Contains(t, text, `"kept":12345678901234567`)
	hide.Add("12345678901234567")
	out, _ = handler2(t.Context(), nil)
	assert.Contains(t, string(inJSON(t, out.Structured)), `"kept":"*****************"`)

	err = errors.New("plain")
	_, got = handler(t.Context(), nil)
	assert.Same(t, err, got)
	err = errors.New("dial the-secret-0123")
	_, got = handler(t.Context(), nil)
	assert.EqualError(t, got, "dial ***************")
	err = protocol.Errorf(protocol.CodeNotFound, "no file the-secret-0123").WithReason("gone")
	_, got = handler(t.Context(), nil)
	var known *protocol.Error
	require.ErrorAs(t, got, &known)
	assert.Equal(t, "gone", known.Reason())
	assert.NotContains(t, got.Error(), "the-secret")
}

func TestMasker(t *testing.T) {
	s := config.Default()
	hide := cli.NewRedactor(io.Discard)
	hide.Add("the-secret-0123")
	assert.Nil(t, Masker(&s, hide), "by default what is read is what is there")
	s.RedactOutput = true
	m := Masker(&s, hide)([]string{"PATH=/usr/bin:/bin", "CHILD_TOKEN=of-the-child-0123", "X_KEY=short"})
	out := string(m.Mask([]byte("a the-secr"))) + string(m.Mask([]byte("et-0123 of-the-ch"))) + string(m.Mask([]byte("ild-0123 /usr/bin:/bin of-th")))
	out += string(m.Flush())
	assert.Equal(t, "a t************** o****************"+" /usr/bin:/bin of-th", out)
	assert.Len(t, out, len("a the-secret-0123 of-the-child-0123 /usr/bin:/bin of-th"))
	assert.Equal(t, "***************", string(Masker(&s, hide)(nil).Mask([]byte("the-secret-0123"))))
}

func inJSON(t *testing.T, v any) []byte {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}
