package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
)

func TestPrintResult(t *testing.T) {
	text := []protocol.Content{{Type: protocol.ContentText, Text: "words"}}
	for _, c := range []struct {
		result protocol.ToolResultParams
		says   string
	}{
		{protocol.ToolResultParams{Outcome: "succeeded"}, ""},
		{protocol.ToolResultParams{Outcome: "succeeded", IsError: true, Structured: json.RawMessage(`{"exit_code":3}`)}, "bash ended with exit code 3"},
		{protocol.ToolResultParams{Outcome: "succeeded", IsError: true, Structured: json.RawMessage(`{"exit_code":137,"exit_signal":"SIGKILL"}`)}, "bash was ended by SIGKILL"},
		{protocol.ToolResultParams{Outcome: "succeeded", IsError: true, Structured: json.RawMessage(`{"exit_code":"x"}`)}, "bash answered with an error"},
		{protocol.ToolResultParams{Outcome: "failed", IsError: true, Error: &protocol.ToolError{Reason: "not_found", Message: "no such\nfile"}}, "bash failed: not_found: no such\nfile"},
		{protocol.ToolResultParams{Outcome: "canceled", IsError: true}, "bash canceled"},
	} {
		c.result.Content = text
		var out bytes.Buffer
		err := printResult(&out, c.result, "bash", false)
		assert.Equal(t, "words\n", out.String())
		if c.says == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, c.says)
			assert.Equal(t, cli.ExitFailed, cli.Code(err))
		}

		out.Reset()
		err = printResult(&out, c.result, "bash", true)
		var back protocol.ToolResultParams
		require.NoError(t, json.Unmarshal(out.Bytes(), &back))
		assert.Equal(t, c.result.Outcome, back.Outcome)
		assert.Equal(t, c.says != "", err != nil)
		var exit *cli.Exit
		if errors.As(err, &exit) {
			assert.True(t, exit.Quiet, "the object says it")
		}
	}
}

func TestPrintContent(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printContent(&out, []protocol.Content{
		{Type: protocol.ContentText, Text: "ends with a line end\n"},
		{Type: protocol.ContentText},
		{Type: protocol.ContentText, Text: "does not, and has \x1b[31mcolour"},
		{Type: protocol.ContentImage, MIMEType: "image/png", Data: []byte("123")},
		{Type: protocol.ContentArtifact, Name: "a\x1b.txt"},
	}))
	assert.Equal(t, "ends with a line end\ndoes not, and has \x1b[31mcolour\n[image image/png, 3 bytes]\n[artifact a\\x1b.txt]\n", out.String(),
		"text goes into a pipe as it came")
}

func TestCheckInput(t *testing.T) {
	assert.NoError(t, checkInput(`{}`))
	assert.NoError(t, checkInput(` {"a":[1,{"b":null}]} `))
	for input, says := range map[string]string{
		"":        "not JSON",
		"{":       "not JSON",
		"{}{}":    "not JSON",
		"{a:1}":   "not JSON",
		`"text"`:  "no object",
		"[1]":     "no object",
		"null":    "no object",
		"{\"a\":": "not JSON",
	} {
		err := checkInput(input)
		assert.ErrorContains(t, err, says, input)
		assert.Equal(t, cli.ExitUsage, cli.Code(err))
	}
}

func TestPrintExecutors(t *testing.T) {
	now := time.Now()
	var out bytes.Buffer
	require.NoError(t, printExecutors(&out, nil, now))
	assert.Equal(t, "no executor has connected yet\n", out.String())
	out.Reset()
	require.NoError(t, printExecutors(&out, []executorInfo{
		{ID: "id-1", Name: "two\nlines\u202e", OS: "linux", Arch: "amd64\x1b[2J", Version: "v1\t", Connected: true, Tools: []string{"bash", "r\x07"},
			Load: &protocol.Load{CPUPercent: 12.6, MemoryPercent: 50}, Sessions: []string{"s", "t"}, Processes: 7},
		{ID: "id-2", Name: "b", OS: "linux", Arch: "arm64", Version: "v1", LastSeen: protocol.At(now.Add(-time.Minute)), Sessions: []string{"s"}},
	}, now))
	assert.Equal(t, 3, strings.Count(out.String(), "\n"))
	for _, bad := range []string{"\x1b", "\x07", "\u202e", "\t"} {
		assert.NotContains(t, out.String(), bad)
	}
	assert.Contains(t, out.String(), "away for 1m0s")
	assert.Regexp(t, `connected +13% +50% +2 +7 `, out.String())
	assert.Regexp(t, `away for 1m0s +- +- `, out.String())
}
