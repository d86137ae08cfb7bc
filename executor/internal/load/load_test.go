package load

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a machine made of files.
type host struct {
	t    *testing.T
	root string
	now  time.Time
}

func newHost(t *testing.T, files map[string]string) *host {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("these files are read on Linux only")
	}
	h := &host{t: t, root: t.TempDir(), now: time.Unix(1_000_000, 0)}
	h.write(map[string]string{
		"proc/meminfo": "MemTotal: 16000000 kB\nMemFree: 2000000 kB\nMemAvailable: 12000000 kB\nBuffers: 0 kB\nCached: 0 kB\n",
	})
	h.cpu(100, 900)
	h.write(files)
	return h
}

func (h *host) write(files map[string]string) {
	h.t.Helper()
	for name, text := range files {
		path := filepath.Join(h.root, name)
		require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// cpu sets the counters of the machine, in hundredths of seconds.
func (h *host) cpu(busy, idle int) {
	h.write(map[string]string{"proc/stat": fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\ncpu0 %d 0 0 %d 0 0 0 0 0 0\n", busy, idle, busy, idle)})
}

func (h *host) sampler(cores float64) *Sampler {
	h.t.Helper()
	s := newSampler(h.root, cores)
	s.now = func() time.Time { return h.now }
	s.limits = nil // what was seen with the real clock
	s.cpu()
	return s
}

func (h *host) reads(s *Sampler, cpu, memory float64) {
	h.t.Helper()
	l, ok := s.Read()
	require.True(h.t, ok)
	assert.InDelta(h.t, cpu, l.CPUPercent, 0.05)
	assert.InDelta(h.t, memory, l.MemoryPercent, 0.05)
}

func TestMachine(t *testing.T) {
	h := newHost(t, nil)
	s := h.sampler(4)
	_, ok := s.Read()
	assert.False(t, ok, "no time has passed")
	h.cpu(130, 970)
	h.reads(s, 30, 25)
	h.reads(s, 30, 25) // within the clock's resolution
	h.cpu(130, 1070)
	h.reads(s, 0, 25)
	h.cpu(330, 1070)
	h.reads(s, 100, 25)
	h.cpu(10, 10) // it was restored from a snapshot
	h.reads(s, 100, 25)
	h.cpu(60, 60)
	h.reads(s, 50, 25)

	require.NoError(t, os.Remove(filepath.Join(h.root, "proc/meminfo")))
	h.cpu(80, 80)
	_, ok = s.Read()
	assert.False(t, ok)
}

func TestSystemThatNoLongerSays(t *testing.T) {
	h := newHost(t, nil)
	s := h.sampler(4)
	h.cpu(130, 970)
	h.reads(s, 30, 25)
	require.NoError(t, os.Remove(filepath.Join(h.root, "proc/stat")))
	_, ok := s.Read()
	assert.False(t, ok)
}

func TestFilesThatMakeNoSense(t *testing.T) {
	for _, text := range []string{"", "cpu\n", "cpu x y z\n", "cpu  -1 0 0 0\n", strings.Repeat("x", 2<<20), "\x00\x00"} {
		h := newHost(t, map[string]string{"proc/stat": text, "proc/meminfo": text, "proc/self/cgroup": text, "proc/self/mountinfo": text})
		s := h.sampler(1)
		_, ok := s.Read()
		assert.False(t, ok)
	}
}

const mountsOfTwo = "22 1 0:20 / / rw - ext4 /dev/vda rw\n30 22 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

func TestUnified(t *testing.T) {
	const own, slice = "sys/fs/cgroup/system.slice/executor.service/", "sys/fs/cgroup/system.slice/"
	h := newHost(t, map[string]string{
		"proc/self/cgroup":     "0::/system.slice/executor.service\n",
		"proc/self/mountinfo":  mountsOfTwo,
		own + "cpu.max":        "200000 100000\n",
		own + "cpu.stat":       "usage_usec 5000000\nuser_usec 1\n",
		own + "memory.max":     "max\n",
		own + "memory.current": "1\n",
		slice + "cpu.max":      "max 100000\n",
		slice + "memory.max":   "1000000000\n",
		// 600 MB, of which 200 MB are cached files nobody needs now.
		slice + "memory.current": "600000000\n",
		slice + "memory.stat":    "anon 400000000\ninactive_file 200000000\nactive_file 1\n",
	})
	s := h.sampler(4)
	h.now = h.now.Add(10 * time.Second)
	h.cpu(1000, 900) // the machine is busy with others
	h.write(map[string]string{own + "cpu.stat": "usage_usec 10000000\n"})
	h.reads(s, 25, 40) // 5 s of the 20 s that two cores have
	h.reads(s, 25, 40) // no time has passed

	h.now = h.now.Add(10 * time.Second)
	h.write(map[string]string{own + "cpu.stat": "usage_usec 90000000\n", slice + "memory.current": "1100000000\n", slice + "memory.stat": ""})
	h.reads(s, 100, 100) // never more

	// The limits are taken away while it runs: the machine's own figures.
	h.write(map[string]string{own + "cpu.max": "max 100000\n", slice + "memory.max": "max\n"})
	h.cpu(1020, 980)
	h.now = h.now.Add(10 * time.Second)
	h.reads(s, 20, 25)

	// One as large as the machine is none.
	h.write(map[string]string{own + "cpu.max": "400000 100000\n", slice + "memory.max": "16384000000\n"})
	h.cpu(1030, 1070)
	h.reads(s, 10, 25)
}

// The tightest of the limits on the way up is what counts: what is fullest.
func TestTightest(t *testing.T) {
	const child, parent = "sys/fs/cgroup/a/b/", "sys/fs/cgroup/a/"
	h := newHost(t, map[string]string{
		"proc/self/cgroup":        "0::/a/b\n",
		"proc/self/mountinfo":     mountsOfTwo,
		child + "cpu.max":         "200000 100000\n",
		child + "cpu.stat":        "usage_usec 0\n",
		child + "memory.max":      "2000000000\n",
		child + "memory.current":  "1000000000\n",
		parent + "cpu.max":        "100000 100000\n",
		parent + "cpu.stat":       "usage_usec 0\n",
		parent + "memory.max":     "4000000000\n",
		parent + "memory.current": "3600000000\n", // its other child's
	})
	s := h.sampler(8)
	h.now = h.now.Add(time.Second)
	h.write(map[string]string{child + "cpu.stat": "usage_usec 500000\n", parent + "cpu.stat": "usage_usec 800000\n"})
	h.reads(s, 80, 90)
}

// Version 1, with its controllers on mounts of their own and beside version 2.
func TestVersion1(t *testing.T) {
	const c = "sys/fs/cgroup/"
	h := newHost(t, map[string]string{
		"proc/self/cgroup": "12:pids:/x\n5:cpuacct,cpu:/docker/abc\n4:memory:/docker/abc/in\n1:name=systemd:/x\n0::/\n",
		"proc/self/mountinfo": "31 30 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n" +
			"34 30 0:31 /docker/abc /sys/fs/cgroup/my\\040memory ro - cgroup cgroup rw,memory\n" +
			"40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
		c + "cpu,cpuacct/cpu.cfs_quota_us":         "50000\n",
		c + "cpu,cpuacct/cpu.cfs_period_us":        "100000\n",
		c + "cpu,cpuacct/cpuacct.usage":            "1000000000\n",
		c + "my memory/memory.limit_in_bytes":      "1000000\n",
		c + "my memory/memory.usage_in_bytes":      "500000\n",
		c + "my memory/memory.stat":                "inactive_file 1\ntotal_inactive_file 100000\n",
		c + "my memory/in/memory.limit_in_bytes":   "9223372036854771712\n",
		c + "my memory/in/memory.usage_in_bytes":   "100000\n",
		c + "unified/cgroup.procs":                 "1\n",
		"sys/fs/cgroup/unused/memory.limit_in_...": "",
	})
	s := h.sampler(2)
	h.now = h.now.Add(4 * time.Second)
	h.write(map[string]string{c + "cpu,cpuacct/cpuacct.usage": "1500000000\n"})
	h.reads(s, 25, 40) // half a second of the two that half a core has
	h.write(map[string]string{c + "cpu,cpuacct/cpu.cfs_quota_us": "-1\n"})
	h.cpu(150, 950)
	h.reads(s, 50, 40)
}

// Whatever the name of one's own cgroup is, nothing outside of the mount is read.
func TestOwnCgroupOutOfSight(t *testing.T) {
	for own, want := range map[string][]string{
		"/":            {"c"},
		"/../../other": {"c"},
		"/../..":       {"c"},
		"/a/../../b":   {"c/b", "c"},
		"":             {"c"},
	} {
		got := mounts{{at: "c", within: "/"}}.levels("", own)
		assert.Equal(t, want, got, own)
	}
	elsewhere := mounts{{at: "c", within: "/pod/one"}}
	assert.Equal(t, []string{"c"}, elsewhere.levels("", "/pod/one"))
	assert.Equal(t, []string{"c/in", "c"}, elsewhere.levels("", "/pod/one/in"))
	assert.Equal(t, []string{"c"}, elsewhere.levels("", "/pod/oneself"))
	assert.Empty(t, elsewhere.levels("memory", "/pod/one"))
}

func TestPercent(t *testing.T) {
	for _, c := range []struct{ part, whole, want float64 }{
		{1, 3, 33.3}, {0, 0, 0}, {1, 0, 0}, {-1, 10, 0}, {20, 10, 100},
		{math.NaN(), 1, 0}, {1, math.NaN(), 0}, {math.Inf(1), 1, 100}, {1, math.Inf(1), 0},
	} {
		assert.Equal(t, c.want, percent(c.part, c.whole), "%v of %v", c.part, c.whole)
	}
}

// This machine, as it is.
func TestHere(t *testing.T) {
	s := New()
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); { // something to measure
		_ = math.Sqrt(2)
	}
	began := time.Now()
	l, ok := s.Read()
	took := time.Since(began)
	require.True(t, ok)
	t.Logf("%+v in %v", l, took)
	assert.True(t, l.CPUPercent > 0 && l.CPUPercent <= 100)
	assert.True(t, l.MemoryPercent > 0 && l.MemoryPercent < 100)
}

func BenchmarkRead(b *testing.B) {
	s := New()
	for b.Loop() {
		s.Read()
	}
}
