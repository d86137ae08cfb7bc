package metrics

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*\})? (\S+)$`)
	helpLine   = regexp.MustCompile(`^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) \S.*$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)$`)
)

// parsed reads the text format as strictly as a scraper may, and returns the samples.
func parsed(t *testing.T, text string) map[string]float64 {
	t.Helper()
	samples, families := map[string]float64{}, map[string]string{}
	family, kind := "", ""
	require.True(t, strings.HasSuffix(text, "\n"))
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := helpLine.FindStringSubmatch(line); m != nil {
			family = m[1]
			require.NotContains(t, families, family, "one block for a family")
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			require.Equal(t, family, m[1])
			kind = m[2]
			families[family] = kind
			require.Equal(t, kind == "counter", strings.HasSuffix(family, "_total"), family)
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		require.NotNil(t, m, "%q", line)
		name := m[1]
		if kind == "histogram" {
			require.Contains(t, []string{family + "_bucket", family + "_sum", family + "_count"}, name)
		} else {
			require.Equal(t, family, name)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		require.NoError(t, err, line)
		require.NotContains(t, samples, m[1]+m[2], "each once")
		samples[m[1]+m[2]] = v
	}
	return samples
}

func TestWriteMetrics(t *testing.T) {
	counts := newCallCounts()
	for _, e := range []executor.CallEnded{
		{Tool: "bash", Outcome: "succeeded", Duration: 20 * time.Millisecond, Bytes: 5},
		{Tool: "bash", Outcome: "failed", Duration: 50 * time.Millisecond, Bytes: 7},
		{Tool: "bash", Outcome: "succeeded", Duration: time.Hour},
		{Tool: "read", Outcome: "succeeded", Bytes: 1},
	} {
		counts.ended(e)
	}
	s := control.Status{Version: "v\"1\\\n", Started: time.UnixMilli(1500), Ready: true, Brains: []control.BrainStatus{
		{Name: "a", Status: executor.Status{State: executor.StateReady, LeaseLeft: 1500 * time.Millisecond, CallsRunning: 3, ResultsOwed: 4, Sessions: make([]executor.SessionStatus, 2),
			Processes: 5, JournalBytes: 6, Reconnects: map[string]int64{"http": 7}}},
		{Name: "b", Status: executor.Status{State: executor.StateWaiting, Degraded: "x", Overdue: time.Second}},
	}}
	var out bytes.Buffer
	require.NoError(t, writeMetrics(&out, s, counts))
	samples := parsed(t, out.String())
	for name, want := range map[string]float64{
		`executor_build_info{version="v\"1\\\n",go_version="` + runtime.Version() + `"}`: 1,
		`executor_ready`: 1,
		`executor_state{brain="a",state="ready"}`:                      1,
		`executor_state{brain="a",state="waiting"}`:                    0,
		`executor_state{brain="b",state="waiting"}`:                    1,
		`executor_lease_seconds{brain="a"}`:                            1.5,
		`executor_sessions{brain="a"}`:                                 2,
		`executor_calls_running{brain="a"}`:                            3,
		`executor_results_owed{brain="a"}`:                             4,
		`executor_processes{brain="a"}`:                                5,
		`executor_journal_bytes{brain="a"}`:                            6,
		`executor_reconnects_total{brain="a",reason="http"}`:           7,
		`executor_reconnects_total{brain="b",reason="tls"}`:            0,
		`executor_degraded{brain="b"}`:                                 1,
		`executor_overdue_seconds{brain="b"}`:                          1,
		`executor_calls_total{tool="bash",outcome="succeeded"}`:        2,
		`executor_calls_total{tool="bash",outcome="failed"}`:           1,
		`executor_call_duration_seconds_bucket{tool="bash",le="0.01"}`: 0,
		`executor_call_duration_seconds_bucket{tool="bash",le="0.05"}`: 2, // a bound is part of its bucket
		`executor_call_duration_seconds_bucket{tool="bash",le="600"}`:  2,
		`executor_call_duration_seconds_bucket{tool="bash",le="+Inf"}`: 3,
		`executor_call_duration_seconds_count{tool="bash"}`:            3,
		`executor_call_duration_seconds_sum{tool="bash"}`:              3600.07,
		`executor_result_bytes_total`:                                  13,
		`process_start_time_seconds`:                                   1.5,
	} {
		got, there := samples[name]
		assert.True(t, there, name)
		assert.InDelta(t, want, got, 1e-9, name)
	}
	assert.Positive(t, samples["go_goroutines"])
	if runtime.GOOS == "linux" {
		assert.Greater(t, samples["process_resident_memory_bytes"], 1e6)
		assert.Positive(t, samples["process_cpu_seconds_total"])
		assert.Positive(t, samples["process_open_fds"])
	}
}

func TestMetricsAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = Listen(l.Addr().String(), zap.NewNop())
	assert.EqualError(t, err, "metrics_listen: the address "+l.Addr().String()+" is in use by another program; stop it, or choose another address")
	assert.Equal(t, cli.ExitFailed, cli.Code(err))
	m, err := Listen("", zap.NewNop())
	require.NoError(t, err)
	m.Prepare(&executor.Options{})
	m.Serve(nil)
	m.Close()
}

// startMetrics serves a status that a test changes.
func startMetrics(t *testing.T, status func() control.Status) (url string) {
	t.Helper()
	m, err := Listen("127.0.0.1:0", zap.NewNop())
	require.NoError(t, err)
	m.Serve(status)
	t.Cleanup(m.Close)
	return "http://" + m.listen.Addr().String()
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.TrimSpace(string(raw))
}

func TestHealthAndReadiness(t *testing.T) {
	hang := make(chan struct{})
	var s control.Status
	hangs := false
	url := startMetrics(t, func() control.Status {
		if hangs {
			<-hang
		}
		return s
	})
	for _, c := range []struct {
		status        control.Status
		health, ready int
		says          string
	}{
		{control.Status{Ready: true, Brains: []control.BrainStatus{{Name: "a", Status: executor.Status{State: executor.StateReady}}}}, 200, 200, "ok"},
		{control.Status{Brains: []control.BrainStatus{{Name: "a", Status: executor.Status{State: executor.StateWaiting}}}}, 200, 503, "a: waiting"},
		{control.Status{Brains: []control.BrainStatus{{Name: "a", Status: executor.Status{State: executor.StateDraining}}}}, 200, 503, "a: draining"},
		{control.Status{Ready: true, Stopping: true, Brains: []control.BrainStatus{{Name: "a", Status: executor.Status{State: executor.StateReady}}}}, 200, 503, "stopping"},
		{control.Status{Brains: []control.BrainStatus{{Name: "a", Status: executor.Status{State: executor.StateConnecting, Overdue: time.Minute}}}}, 503, 503, "a: connecting"},
	} {
		s = c.status
		code, text := get(t, url+"/readyz")
		assert.Equal(t, c.ready, code)
		assert.Contains(t, text, c.says)
		code, text = get(t, url+"/healthz")
		assert.Equal(t, c.health, code, text)
	}
	code, _ := get(t, url+"/none")
	assert.Equal(t, 404, code)
	code, text := get(t, url+"/metrics")
	assert.Equal(t, 200, code)
	parsed(t, text+"\n")
	hangs = true
	code, text = get(t, url+"/healthz")
	assert.Equal(t, 503, code)
	assert.Contains(t, text, "it is stuck")
	close(hang)
}

// A client that sends slowly, much or nothing holds up nobody.
func TestMetricsBoundsClients(t *testing.T) {
	url := startMetrics(t, func() control.Status { return control.Status{} })
	addr := strings.TrimPrefix(url, "http://")
	for range 1000 {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		_, _ = c.Write([]byte("GET /metrics HTTP/1.1\r\n"))
	}
	began := time.Now()
	code, _ := get(t, url+"/metrics")
	assert.Equal(t, 200, code)
	assert.Less(t, time.Since(began), metricsTimeout/2)
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 40<<10))
	require.NoError(t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "431")
}

// BenchmarkScrape is one scrape of an executor's own server, without the network. It takes
// the status, as each tool call takes the same lock for a moment.
func BenchmarkScrape(b *testing.B) {
	counts := newCallCounts()
	for i := range 40 {
		for _, outcome := range []string{"succeeded", "failed", "canceled"} {
			counts.ended(executor.CallEnded{Tool: fmt.Sprint("tool", i), Outcome: outcome, Duration: time.Second})
		}
	}
	ex, err := executor.New(executor.Options{URL: "ws://127.0.0.1:1/"})
	require.NoError(b, err)
	m := &Server{counts: counts, asking: make(chan struct{}, 1)}
	h := m.handler(func() control.Status {
		return control.Status{Brains: []control.BrainStatus{{Name: "a", Status: ex.Status()}}}
	})
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
