package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestReport(t *testing.T) {
	plain := errors.New("no\nline \x1b[31mends")
	for _, c := range []struct {
		err    error
		asJSON bool
		code   int
		said   string
	}{
		{nil, false, 0, ""},
		{plain, false, 1, "prog: no line \\x1b[31mends\n"},
		{Usagef("bad %d", 7), false, 2, "prog: bad 7\n"},
		{fmt.Errorf("around: %w", WithCode(5, plain)), false, 5, "prog: around: no line \\x1b[31mends\n"},
		{&Exit{Code: 3, Err: plain, Quiet: true}, false, 3, ""},
		{Usagef("bad"), true, 2, "{\n  \"error\": \"bad\",\n  \"exit_code\": 2\n}\n"},
	} {
		var out bytes.Buffer
		assert.Equal(t, c.code, Report(&out, "prog", c.err, c.asJSON))
		assert.Equal(t, c.said, out.String())
	}
	assert.NoError(t, WithCode(2, nil))
}

func TestTextIsSafeOnATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünïcode\tand\nlines": "plain ünïcode\tand\nlines",
		"\x1b]0;title\x07":          `\x1b]0;title\x07`,
		"\u009b31m":                 `\u009b31m`,
		"a\u202eb":                  `a\u202eb`,
		"\xff\x00":                  `\xff\x00`,
		"dos\r\nline\rback":         "dos\nline\\x0dback",
		"\u2028":                    `\u2028`,
	} {
		assert.Equal(t, want, Text(in))
	}
	assert.Equal(t, "a b c", Line("a\r\nb\nc\n"))
}

func TestJSONIsSafeOnATerminal(t *testing.T) {
	in := map[string]string{"k<\x1b": "\u009b\u202e\x7f\n\x00 ü"}
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, in))
	assert.Equal(t, -1, strings.IndexFunc(out.String(), unsafeRune), "%q", out.String())
	assert.Contains(t, out.String(), "k<", "not escaped for HTML")
	var back map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, in, back)
}

func TestIsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	assert.False(t, IsTerminal(w))
	assert.False(t, IsTerminal(&bytes.Buffer{}))
}

func TestLoggerLeavesNothingOut(t *testing.T) {
	var out bytes.Buffer
	log, err := Logger(&out, "info", "json")
	require.NoError(t, err)
	for range 500 {
		log.Info("the same")
	}
	log.Debug("not this")
	assert.Equal(t, 500, strings.Count(out.String(), "the same"))
	assert.NotContains(t, out.String(), "not this")
	assert.True(t, json.Valid([]byte(strings.SplitN(out.String(), "\n", 2)[0])))

	out.Reset()
	log, err = Logger(&out, "debug", "console")
	require.NoError(t, err)
	log.Named("part").Debug("words", zap.String("text", "\x1b[31m\n"))
	assert.Regexp(t, `^\S+  DEBUG  part  words  {"text": "\\u001b\[31m\\n"}\n$`, out.String())

	_, err = Logger(&out, "loud", "json")
	assert.Equal(t, ExitUsage, Code(err))
}

type failSync struct {
	io.Writer
	err error
}

func (f failSync) Sync() error { return f.err }

func TestSyncLogger(t *testing.T) {
	for _, c := range []struct {
		err error
		is  bool
	}{{nil, false}, {syscall.EINVAL, false}, {&os.PathError{Op: "sync", Err: syscall.ENOTTY}, false}, {syscall.EIO, true}} {
		log, err := Logger(failSync{io.Discard, c.err}, "info", "json")
		require.NoError(t, err)
		assert.Equal(t, c.is, SyncLogger(log) != nil, c.err)
	}
}

func TestRedactor(t *testing.T) {
	var out bytes.Buffer
	r := NewRedactor(&out)
	r.Add("short")
	for range 3 {
		r.Add("a-long-secret-1")
	}
	n, err := r.Write([]byte("say a-long-secret-1 and short"))
	require.NoError(t, err)
	assert.Equal(t, 29, n, "as if all of it was written")
	assert.Equal(t, "say [redacted] and short", out.String())
	for i := range 32 {
		r.Add(fmt.Sprintf("another-secret-%02d", i))
	}
	assert.Equal(t, "another-secret-15 [redacted]", r.Redact("another-secret-15 another-secret-16"))
	assert.Equal(t, "[redacted]", r.Redact("another-secret-31"))
}

func TestRootNamesTheNearest(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"srve"}, `there is no command "srve"; did you mean "serve"?`},
		{[]string{"zzzzzzzzz"}, "there is no command \"zzzzzzzzz\"; there are "},
		{[]string{"serve", "--lisen", "x"}, "unknown flag: --lisen; did you mean --listen?"},
		{[]string{"serve", "--zzzzzzzzz"}, "unknown flag: --zzzzzzzzz; see prog serve --help"},
		{[]string{"serve", "--count", "many"}, `--count: "many": want a whole number; see prog serve --help`},
		{[]string{"serve", "--count", "99999999999999999999"}, `--count: "99999999999999999999": want a whole number`},
		{[]string{"serve", "--after", "30"}, `--after: "30": want a time like 500ms, 30s or 2m`},
		{[]string{"serve", "--really=perhaps"}, `--really: "perhaps": want true or false`},
		{[]string{"serve", "--count"}, "flag needs an argument: --count"},
		{[]string{"serve", "what"}, "serve: unknown command \"what\""},
		{[]string{"serve", "--output", "yaml"}, `--output "yaml": want text or json`},
	} {
		root := NewRoot("prog", "")
		serve := &cobra.Command{Use: "serve", RunE: func(*cobra.Command, []string) error { return nil }}
		serve.Flags().String("listen", "", "")
		serve.Flags().Int("count", 0, "")
		serve.Flags().Duration("after", 0, "")
		serve.Flags().Bool("really", false, "")
		root.AddCommand(serve)
		root.SetArgs(c.args)
		root.SetOut(io.Discard)
		for _, s := range root.Commands() {
			checkArgs(s)
		}
		err := root.Execute()
		assert.ErrorContains(t, err, c.says)
		assert.Equal(t, ExitUsage, Code(err), c.args)
		assert.NotContains(t, fmt.Sprint(err), "\n")
	}
}

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"run --output json": true, "--output=json run": true, "run --output text": false,
		"run --output": false, "call x -- --output json": false, "": false,
	} {
		assert.Equal(t, want, wantsJSON(strings.Fields(line)), line)
	}
}
