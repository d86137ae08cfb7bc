//go:build unix

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Everything that can go wrong between and with the two ends, at random, for as long as
// EXECUTOR_SOAK says; then all of it stops, and the ledger has to be right. make soak
// runs it. EXECUTOR_SOAK_FAULTS, a list with commas, has only some things go wrong.
func TestSoak(t *testing.T) {
	text := os.Getenv("EXECUTOR_SOAK")
	if text == "" {
		t.Skip("takes minutes: set EXECUTOR_SOAK to a duration, or run make soak")
	}
	lasts, err := time.ParseDuration(text)
	require.NoError(t, err, "EXECUTOR_SOAK")

	r := newRig(t)
	seed, stream := seeded(t)
	net := newRelay(t, r.address)
	r.dial = net.addr()
	r.startExecutor()

	stop := make(chan struct{})
	var workers sync.WaitGroup
	for n := range 6 {
		workers.Go(func() { r.soakCalls(n, stream(uint64(n)+1), stop) })
	}
	s := &soak{rig: r, net: net, chance: stream(0), faults: map[string]int{}, began: time.Now(), kinds: slices.Sorted(maps.Keys(soakFaults))}
	if only := os.Getenv("EXECUTOR_SOAK_FAULTS"); only != "" {
		s.kinds = strings.Split(only, ",")
	}
	for _, kind := range s.kinds {
		require.Contains(t, soakFaults, kind, "EXECUTOR_SOAK_FAULTS")
	}
	summary := time.NewTicker(30 * time.Second)
	defer summary.Stop()
	for end := s.began.Add(lasts); time.Now().Before(end); {
		select {
		case <-summary.C:
			s.summarize()
		default:
			s.fault()
		}
		wait(span(s.chance, 100*time.Millisecond, 2*time.Second))
	}
	close(stop)
	r.settle(&workers)
	s.summarize()
	fates := r.audit(t)
	t.Logf("seed %d; faults: %s", seed, told(s.faults))
	t.Logf("%s", told(fates))
	require.Positive(t, fates["succeeded"])

	// What is left behind, once all has been delivered.
	wait(2 * time.Second)
	u := s.usage()
	require.Less(t, u.memory, 150<<10, "kilobytes of memory")
	require.Less(t, u.files, 64, "open files")
	size, names := left(t, r.state)
	t.Logf("in the state directory: %d bytes in %s", size, strings.Join(names, " "))
	require.Less(t, size, int64(64<<20))
	require.Less(t, len(names), 64)
	temporary, err := filepath.Glob(filepath.Join(r.home, "executor*"))
	require.NoError(t, err)
	require.Less(t, len(temporary), 8, "%v", temporary)
}

// soak is what goes wrong.
type soak struct {
	*rig
	net    *relay
	chance *rand.Rand
	kinds  []string
	faults map[string]int
	began  time.Time
}

// soakFaults are what can go wrong. Each but a restart goes on for a while, and is
// mended then.
var soakFaults = map[string]func(s *soak, lasts time.Duration){
	"cut": func(s *soak, _ time.Duration) { s.net.cut() },
	"stall": func(s *soak, lasts time.Duration) {
		s.net.set(relayStalls)
		wait(lasts)
	},
	"crawl": func(s *soak, lasts time.Duration) {
		s.net.set(relayCrawls)
		wait(lasts)
	},
	"blackhole": func(s *soak, lasts time.Duration) {
		s.net.set(relaySwallows)
		wait(lasts)
	},
	"kill": func(s *soak, _ time.Duration) {
		s.stopExecutor(syscall.SIGKILL)
		s.startExecutor()
	},
	"restart": func(s *soak, _ time.Duration) {
		s.stopExecutor(syscall.SIGTERM)
		s.startExecutor()
	},
	"suspend": func(s *soak, lasts time.Duration) {
		s.signal(syscall.SIGSTOP)
		wait(lasts)
		s.signal(syscall.SIGCONT)
	},
	"brain": func(s *soak, lasts time.Duration) {
		s.stopBrain()
		if s.chance.IntN(2) == 0 {
			wait(lasts)
		}
		s.startBrain()
	},
}

// fault makes one thing go wrong, and mends it.
func (s *soak) fault() {
	lasts := span(s.chance, 50*time.Millisecond, 3*time.Second)
	if s.chance.IntN(20) == 0 {
		lasts = span(s.chance, 20*time.Second, 40*time.Second) // longer than a connection is trusted
	}
	name := s.kinds[s.chance.IntN(len(s.kinds))]
	soakFaults[name](s, lasts)
	s.net.heal()
	s.faults[name]++
}

// summarize prints a line.
func (s *soak) summarize() {
	s.lock.Lock()
	calls, stored, again, wrong := len(s.calls), len(s.stored), s.again, len(s.wrong)
	s.lock.Unlock()
	n := 0
	for _, k := range s.faults {
		n += k
	}
	u := s.usage()
	fmt.Printf("soak %5.0fs: %d calls, %d results stored, %d came again, %d wrong; %d faults; executor: %d MiB, %d open files\n",
		time.Since(s.began).Seconds(), calls, stored, again, wrong, n, u.memory>>10, u.files)
}

// usage is what the executor's process uses: KiB of memory, and open files.
type usage struct{ memory, files int }

func (s *soak) usage() (u usage) {
	if runtime.GOOS != "linux" {
		return usage{}
	}
	proc := filepath.Join("/proc", strconv.Itoa(s.executor.Process.Pid))
	status, _ := os.ReadFile(filepath.Join(proc, "status"))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(rest, &u.memory)
		}
	}
	fds, _ := os.ReadDir(filepath.Join(proc, "fd"))
	u.files = len(fds)
	return u
}

// left lists the files under dir and their size.
func left(t *testing.T, dir string) (size int64, names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return size, names
}

// soakCalls makes calls of every kind until it is told to stop.
func (r *rig) soakCalls(n int, chance *rand.Rand, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(span(chance, 0, 400*time.Millisecond)):
		}
		id := fmt.Sprintf("w%d-%d", n, i)
		job := shortTask(id, chance)
		switch chance.IntN(6) {
		case 0: // long
			job = bash(id, "echo %s >> counter; sleep %d.%d; echo done", id, chance.IntN(5), chance.IntN(10))
		case 1: // cancelled, before or while it runs, or too late
			job = bash(id, "sleep 0.%d; echo %s >> counter; sleep 0.%d; echo done", chance.IntN(9)+1, id, chance.IntN(9)+1)
			job.cancelAt = span(chance, time.Millisecond, time.Second)
		case 2: // larger than what is kept in line, and a file to be read again
			job = bash(id, "echo %s >> counter; head -c %d /dev/zero | tr '\\0' x; echo done", id, 30_000+chance.IntN(270_000))
		}
		r.make(id, job)
	}
}
