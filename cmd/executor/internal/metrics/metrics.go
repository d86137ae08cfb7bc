package metrics

import (
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/cmd/executor/internal/control"
	"github.com/agent-executor/executor/executor"
)

// callBuckets are the upper bounds of the histogram of durations, in seconds.
var callBuckets = [...]float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600}

// callCounts counts calls as they end. Its labels are bounded: a tool is one that is
// registered, an outcome one of three; no id of a session or a call is one. Its methods are
// called concurrently.
type callCounts struct {
	mu       sync.Mutex
	outcomes map[[2]string]uint64 // by tool and outcome
	tools    map[string]*callTimes
	bytes    uint64
}

type callTimes struct {
	buckets [len(callBuckets) + 1]uint64 // the last: longer than all
	seconds float64
}

func newCallCounts() *callCounts {
	return &callCounts{outcomes: map[[2]string]uint64{}, tools: map[string]*callTimes{}}
}

// ended is executor.Options.OnCall.
func (c *callCounts) ended(e executor.CallEnded) {
	seconds := e.Duration.Seconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes[[2]string{e.Tool, e.Outcome}]++
	t := c.tools[e.Tool]
	if t == nil {
		t = &callTimes{}
		c.tools[e.Tool] = t
	}
	i, _ := slices.BinarySearch(callBuckets[:], seconds)
	t.buckets[i]++
	t.seconds += seconds
	c.bytes += uint64(e.Bytes)
}

// exposition writes Prometheus's text format, version 0.0.4.
type exposition struct{ strings.Builder }

func (x *exposition) family(name, kind, help string) {
	fmt.Fprintf(x, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes one line; labels are names and values in turn.
func (x *exposition) sample(name string, value float64, labels ...string) {
	x.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		x.WriteByte("{,"[min(i, 1)])
		x.WriteString(labels[i])
		x.WriteString(`="`)
		x.WriteString(labelEscapes.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")))
		x.WriteByte('"')
	}
	if len(labels) > 0 {
		x.WriteByte('}')
	}
	x.WriteByte(' ')
	if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
		x.WriteString(strconv.FormatInt(int64(value), 10))
	} else {
		x.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	}
	x.WriteByte('\n')
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// one is a family of one sample.
func (x *exposition) one(name, kind, help string, value float64, labels ...string) {
	x.family(name, kind, help)
	x.sample(name, value, labels...)
}

// writeMetrics writes all there is of a program with that status.
func writeMetrics(w io.Writer, s control.Status, counts *callCounts) error {
	var x exposition
	x.one("executor_build_info", "gauge", "Always 1, with what was built.", 1, "version", s.Version, "go_version", runtime.Version())
	x.one("executor_ready", "gauge", "1 when registered with every brain and taking work.", truth(s.Ready))
	x.brains(s)
	counts.write(&x)
	x.process(s)
	_, err := io.WriteString(w, x.String())
	return err
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var states = [...]executor.State{executor.StateConnecting, executor.StateWaiting, executor.StateReady, executor.StateDraining, executor.StateStopped}

// brains writes what there is of each.
func (x *exposition) brains(s control.Status) {
	each := func(name, kind, help string, of func(b control.BrainStatus) float64) {
		x.family(name, kind, help)
		for _, b := range s.Brains {
			x.sample(name, of(b), "brain", b.Name)
		}
	}
	x.family("executor_state", "gauge", "1 for the state the connection to the brain is in.")
	for _, b := range s.Brains {
		for _, state := range states {
			x.sample("executor_state", truth(b.State == state), "brain", b.Name, "state", string(state))
		}
	}
	each("executor_lease_seconds", "gauge", "For how long the brain still counts on this executor; 0 without a lease.", func(b control.BrainStatus) float64 { return b.LeaseLeft.Seconds() })
	each("executor_sessions", "gauge", "Sessions that are assigned.", func(b control.BrainStatus) float64 { return float64(len(b.Sessions)) })
	each("executor_calls_running", "gauge", "Tool calls that run.", func(b control.BrainStatus) float64 { return float64(b.CallsRunning) })
	each("executor_processes", "gauge", "Processes and other work of sessions that is no call.", func(b control.BrainStatus) float64 { return float64(b.Processes) })
	each("executor_results_owed", "gauge", "Results the brain has not acknowledged.", func(b control.BrainStatus) float64 { return float64(b.ResultsOwed) })
	each("executor_results_lost_total", "counter", "Results the brain has refused for good.", func(b control.BrainStatus) float64 { return float64(b.ResultsLost) })
	each("executor_notifications_dropped_total", "counter", "Progress and status that was not sent.", func(b control.BrainStatus) float64 { return float64(b.NotificationsDropped) })
	each("executor_journal_bytes", "gauge", "Size of the journal on the disk.", func(b control.BrainStatus) float64 { return float64(b.JournalBytes) })
	each("executor_degraded", "gauge", "1 while the state directory cannot be written.", func(b control.BrainStatus) float64 { return truth(b.Degraded != "") })
	each("executor_overdue_seconds", "gauge", "For how long the connection's loop has been stuck; 0 in one that works.", func(b control.BrainStatus) float64 { return b.Overdue.Seconds() })
	x.family("executor_reconnects_total", "counter", "Attempts to connect that failed and connections that were lost, by reason.")
	for _, b := range s.Brains {
		for _, reason := range executor.ReconnectReasons() {
			x.sample("executor_reconnects_total", float64(b.Reconnects[reason]), "brain", b.Name, "reason", reason)
		}
	}
}

func (c *callCounts) write(x *exposition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.family("executor_calls_total", "counter", "Tool calls that have ended, by tool and outcome.")
	keys := slices.SortedFunc(maps.Keys(c.outcomes), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		x.sample("executor_calls_total", float64(c.outcomes[k]), "tool", k[0], "outcome", k[1])
	}
	const name = "executor_call_duration_seconds"
	x.family(name, "histogram", "From the acceptance of a call to its recorded result.")
	for _, tool := range slices.Sorted(maps.Keys(c.tools)) {
		t, total := c.tools[tool], uint64(0)
		for i, n := range t.buckets {
			total += n
			bound := "+Inf"
			if i < len(callBuckets) {
				bound = strconv.FormatFloat(callBuckets[i], 'g', -1, 64)
			}
			x.sample(name+"_bucket", float64(total), "tool", tool, "le", bound)
		}
		x.sample(name+"_sum", t.seconds, "tool", tool)
		x.sample(name+"_count", float64(total), "tool", tool)
	}
	x.one("executor_result_bytes_total", "counter", "Content of results.", float64(c.bytes))
}

// process writes what there is of the process, under the usual names.
func (x *exposition) process(s control.Status) {
	x.one("process_start_time_seconds", "gauge", "When it was started, since the Unix epoch.", float64(s.Started.UnixMilli())/1000)
	cpu, rss, files := processUsage()
	if cpu > 0 {
		x.one("process_cpu_seconds_total", "counter", "CPU time, of the user and of the system.", cpu.Seconds())
	}
	if rss > 0 {
		x.one("process_resident_memory_bytes", "gauge", "Memory that is resident.", float64(rss))
	}
	if files > 0 {
		x.one("process_open_fds", "gauge", "Open file descriptors.", float64(files))
	}
	for _, m := range []struct{ source, name, kind, help string }{
		{"/sched/goroutines:goroutines", "go_goroutines", "gauge", "Goroutines."},
		{"/memory/classes/heap/objects:bytes", "go_memstats_heap_alloc_bytes", "gauge", "Heap in use."},
		{"/memory/classes/total:bytes", "go_memstats_sys_bytes", "gauge", "Memory the runtime has mapped."},
		{"/gc/cycles/total:gc-cycles", "go_gc_cycles_total", "counter", "Garbage collections."},
		{"/gc/heap/allocs:bytes", "go_memstats_alloc_bytes_total", "counter", "Bytes ever allocated."},
	} {
		sample := []metrics.Sample{{Name: m.source}}
		metrics.Read(sample)
		if sample[0].Value.Kind() == metrics.KindUint64 {
			x.one(m.name, m.kind, m.help, float64(sample[0].Value.Uint64()))
		}
	}
}

// within calls f and waits for it, at most for limit; false when it has not come back.
// There is one at a time: while one hangs, others are told so at once.
func within[T any](limit time.Duration, one chan struct{}, f func() T) (v T, ok bool) {
	select {
	case one <- struct{}{}:
	case <-time.After(limit):
		return v, false
	}
	result := make(chan T, 1)
	go func() { // it ends when what it waits for does; there is never a second
		defer func() { <-one }()
		result <- f()
	}()
	select {
	case v = <-result:
		return v, true
	case <-time.After(limit):
		return v, false
	}
}
