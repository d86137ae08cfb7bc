package main

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

func TestSignals(t *testing.T) {
	var did []string
	var log bytes.Buffer
	logger, err := cli.Logger(&log, "info", "console")
	require.NoError(t, err)
	signals := make(chan os.Signal, 3)
	signals <- syscall.SIGTERM
	signals <- os.Interrupt
	signals <- syscall.SIGTERM
	close(signals)
	handleSignals(signals, logger, signalActions{
		drain:  func() { did = append(did, "drain") },
		cancel: func() { did = append(did, "cancel") },
		exit: func(code int) {
			assert.Equal(t, cli.ExitFailed, code)
			did = append(did, "exit")
		},
	})
	assert.Equal(t, []string{"drain", "cancel", "exit"}, did)
	assert.Equal(t, 3, bytes.Count(log.Bytes(), []byte("\n")), "each says what the next one does")
}
