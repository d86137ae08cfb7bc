package rpc_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/rpc"
)

// A server that says the token back is not quoted with it, nor with a part of it.
func TestDialErrorHidesTheToken(t *testing.T) {
	token := strings.Repeat("0123456789", 60)
	for body, want := range map[string]string{
		"token " + token + " is bad\nmore":        "token [redacted] is bad",
		token + token:                             "[redacted][redacted]",
		"it is " + token[:400]:                    "it is [redacted]",
		"no such token":                           "no such token",
		strings.Repeat("x", 195) + " " + token[:]: strings.Repeat("x", 195) + " [red",
		"": "",
	} {
		e := rpc.NewDialError(&http.Response{StatusCode: 401}, []byte(body), token)
		assert.Equal(t, want, e.Body)
	}
	assert.Equal(t, "abc", rpc.NewDialError(&http.Response{}, []byte("abc"), "").Body)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "bad "+strings.Repeat(r.Header.Get("Authorization")+" ", 10), http.StatusUnauthorized)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { _ = s.Close(); <-done }()
	_, err = rpc.Dial(context.Background(), "ws://"+l.Addr().String()+"/", rpc.DialOptions{Token: token})
	var refused *rpc.DialError
	require.ErrorAs(t, err, &refused)
	assert.NotContains(t, refused.Error(), token[:20])
}

// How long a server may ask to be left alone: bounded by whoever waits, and never
// taken for nothing.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-1": 0, "": 0, "soon": 0, "-99999999999999999999": 0,
		"Thu, 01 Jan 1970 00:00:00 GMT": 0, "99999999999999999999": 1 << 30 * time.Second, "9999999999": 1 << 30 * time.Second,
	} {
		e := rpc.NewDialError(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {header}}}, nil, "")
		require.Equal(t, want, e.RetryAfter, header)
	}
}
