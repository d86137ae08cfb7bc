package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agent-executor/executor/cmd/executor/internal/config/configtest"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// What package executor refuses is configuration too.
func TestRunRefusesWithUsage(t *testing.T) {
	s := configtest.Working(t)
	s.Brain = []string{"ws://192.0.2.1/executor"}
	var log bytes.Buffer
	err := run(t.Context(), &s, nil, &log)
	assert.ErrorContains(t, err, "clear text")
	assert.Equal(t, cli.ExitUsage, cli.Code(err))

	s = configtest.Working(t)
	s.Brain = []string{"http://127.0.0.1/"}
	assert.Equal(t, cli.ExitUsage, cli.Code(run(t.Context(), &s, nil, &log)))

	s = configtest.Working(t)
	s.StateDir = filepath.Join(s.TokenFile, "below-a-file")
	assert.Equal(t, cli.ExitFailed, cli.Code(run(t.Context(), &s, nil, &log)))
}

func TestErrorsAreRedacted(t *testing.T) {
	hide := cli.NewRedactor(&bytes.Buffer{})
	hide.Add(configtest.Token)
	err := redacted(cli.WithCode(3, errors.New("the server said "+configtest.Token)), hide)
	assert.EqualError(t, err, "the server said [redacted]")
	assert.Equal(t, 3, cli.Code(err))
	assert.NoError(t, redacted(nil, hide))
	plain := errors.New("plain")
	assert.Same(t, plain, redacted(plain, hide))
}
