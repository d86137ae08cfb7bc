package main

import (
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain"
)

// A private authority, by SSL_CERT_FILE or by the option; without either a clear error and
// no way around it (case 102).
func TestPrivateAuthority(t *testing.T) {
	site := newSite(t)
	b := brain.New(brain.Options{})
	s := httptest.NewTLSServer(b)
	defer s.Close()
	defer b.Close("test ends")
	ca := filepath.Join(site.home, "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	for _, c := range []struct {
		env, args []string
		says      string
	}{
		{nil, nil, "certificate signed by unknown authority"},
		{[]string{"SSL_CERT_FILE=" + ca}, nil, "registered"},
		{nil, []string{"--ca-file", ca}, "registered"},
	} {
		site.env = c.env
		agent := site.start("executor", append([]string{"run", "--brain", strings.Replace(s.URL, "https", "wss", 1), "--state-dir", filepath.Join(site.home, "x")}, c.args...)...)
		agent.says(c.says)
		agent.signal(os.Interrupt)
		agent.exit()
	}
}

// What the environment says about proxies, in the real program (case 101). A name that
// exists nowhere is one that only the proxy knows.
func TestProxyOfTheEnvironment(t *testing.T) {
	site := newSite(t)
	b := brain.New(brain.Options{})
	server := httptest.NewServer(b)
	defer server.Close()
	defer b.Close("test ends")
	var mu sync.Mutex
	var asked []string
	var work sync.WaitGroup
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Host)
		mu.Unlock()
		if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("u:p@ss-geheim99")) {
			http.Error(w, "who?", http.StatusProxyAuthRequired)
			return
		}
		to, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			return
		}
		from, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		work.Go(func() { _, _ = io.Copy(to, rw); to.Close() })
		work.Go(func() { _, _ = io.Copy(from, to); from.Close() })
	}))
	defer work.Wait()
	defer proxy.Close()
	at := proxy.Listener.Addr().String()
	for _, c := range []struct {
		brain, env string
		says       string
		asked      bool
	}{
		{"ws://brain.invalid/executor", "HTTP_PROXY=http://u:p%40ss-geheim99@" + at, "registered", true},
		{"ws://brain.invalid/executor", "HTTP_PROXY=http://u:geheim99-wrong@" + at, "the proxy http://" + at + " answered 407 Proxy Authentication Required: who?", true},
		{"ws://240.0.0.1:9/x", "HTTP_PROXY=http://u:p%40ss-geheim99@" + at + " NO_PROXY=240.0.0.1:10", "registered", true},
		{"ws://240.0.0.1:9/x", "HTTP_PROXY=http://" + at + " NO_PROXY=240.0.0.0/4", "not connected|exhausted", false},
		{"ws://240.0.0.1:9/x", "HTTP_PROXY=http://" + at + " NO_PROXY=240.0.0.1:9", "not connected|exhausted", false},
		{"ws://" + server.Listener.Addr().String() + "/x", "HTTP_PROXY=http://" + at, "registered", false}, // this machine's own
	} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		site.env = strings.Fields(c.env)
		agent := site.start("executor", "run", "--brain", c.brain, "--insecure", "--state-dir", filepath.Join(site.home, "x"))
		agent.says(c.says)
		_ = agent.cmd.Process.Signal(os.Interrupt)
		agent.exit()
		assert.NotContains(t, agent.stderr.String(), "geheim99", "it is never logged")
		mu.Lock()
		assert.Equal(t, c.asked, len(asked) > 0, "%s %s", c.brain, c.env)
		mu.Unlock()
	}
}
