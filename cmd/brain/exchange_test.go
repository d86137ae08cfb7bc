package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
)

// The exchange is beside the token, which goes on working.
func TestExchangeBesideTheToken(t *testing.T) {
	s := newServer(testToken, zap.NewNop())
	defer s.brain.Close("test ends")
	file := filepath.Join(t.TempDir(), "key")
	o := serveOptions{environmentKeyFile: file, tokenTTL: time.Minute}
	hide := cli.NewRedactor(&bytes.Buffer{})
	require.NoError(t, s.exchange(&o, hide))
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	key := strings.TrimSpace(string(raw))
	assert.Equal(t, "[redacted]", hide.Redact(key))
	assert.Empty(t, cli.SecretFileWarning(file, "environment key"))

	ask := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/v1/environments/lab/executors/token", strings.NewReader(`{"environment_id":"lab"}`))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.publicHandler().ServeHTTP(w, r)
		return w
	}
	assert.Equal(t, http.StatusUnauthorized, ask(testToken).Code)
	w := ask(key)
	require.Equal(t, http.StatusOK, w.Code)
	var given protocol.TokenExchangeResponse
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &given))
	assert.EqualValues(t, 60, given.ExpiresIn)

	for token, name := range map[string]string{testToken: "token", given.Token: `"lab" ""`, key: "", "": "", given.Token + "x": ""} {
		who, err := s.authenticate(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
		assert.Equal(t, name, who.Name)
		if name == "" {
			assert.ErrorIs(t, err, protocol.ErrUnauthorized)
		} else {
			assert.NoError(t, err)
		}
	}

	require.NoError(t, s.exchange(&o, hide))
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, raw, again, "the key is kept")
}

func TestExchangeIsRefused(t *testing.T) {
	s := newServer(testToken, zap.NewNop())
	defer s.brain.Close("test ends")
	hide := cli.NewRedactor(&bytes.Buffer{})
	require.NoError(t, s.exchange(&serveOptions{}, hide))
	w := httptest.NewRecorder()
	s.publicHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/environments/lab/executors/token", strings.NewReader("{}")))
	assert.Equal(t, http.StatusNotFound, w.Code, "there is none unless it is asked for")

	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(short, []byte("short"), 0o600))
	for says, o := range map[string]serveOptions{
		"want more than 0":                     {environmentKeyFile: filepath.Join(t.TempDir(), "key")},
		"environment key of less than 16":      {environmentKeyFile: short, tokenTTL: time.Hour},
		"environment key file: open":           {environmentKeyFile: filepath.Join(t.TempDir(), "none", "key"), tokenTTL: time.Hour},
		"is a directory, not a file; name the": {environmentKeyFile: t.TempDir(), tokenTTL: time.Hour},
	} {
		err := s.exchange(&o, hide)
		require.ErrorContains(t, err, says)
		assert.Equal(t, cli.ExitUsage, cli.Code(err))
	}
}
