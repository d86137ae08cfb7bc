//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestJournalFormat(t *testing.T) {
	var out bytes.Buffer
	log, err := Logger(&out, "debug", "journal")
	require.NoError(t, err)
	log = log.Named("part").With(zap.String("with", "w"))
	log.Debug("d")
	log.Info("i", zap.String("text", "a\nb"))
	log.Warn("w")
	log.Error("e")
	log.DPanic("p")
	assert.Equal(t, `<7>part  d  {"with": "w"}
<6>part  i  {"with": "w", "text": "a\nb"}
<4>part  w  {"with": "w"}
<3>part  e  {"with": "w"}
<2>part  p  {"with": "w"}
`, out.String())
}

// The variable is inherited also by what redirects its output; the file says it.
func TestLogFormatOf(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	assert.Equal(t, "console", LogFormatOf("auto", w))
	assert.Equal(t, "console", LogFormatOf("auto", &bytes.Buffer{}))
	assert.Equal(t, "json", LogFormatOf("json", w))
	if runtime.GOOS != "linux" {
		return
	}
	info, err := w.Stat()
	require.NoError(t, err)
	s := info.Sys().(*syscall.Stat_t)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", s.Dev, s.Ino))
	assert.Equal(t, "journal", LogFormatOf("auto", w))
	assert.Equal(t, "console", LogFormatOf("auto", os.Stderr))
	assert.Equal(t, "console", LogFormatOf("console", w), "it was asked for")
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", s.Dev, s.Ino+1))
	assert.Equal(t, "console", LogFormatOf("auto", w))
}
