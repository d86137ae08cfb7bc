// Package load says how busy the machine is, or the cgroup this process runs in when
// that is allowed less than the machine has. The smallest use:
//
//	s := load.New()
//	...
//	now, ok := s.Read() // the CPU's share is the mean since the last Read, or since New
//
// Its parts: load.go is the Sampler, machine_linux.go and machine_other.go read the
// machine's own figures, cgroup.go those of cgroups, of both versions.
package load

import (
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/agent-executor/executor/protocol"
)

// Sampler measures. It may be used concurrently, has no goroutine and needs no end. A
// Read takes a few hundred microseconds at most.
type Sampler struct {
	cores   float64
	machine machine
	cgroups cgroups
	now     func() time.Time

	mu     sync.Mutex
	times  cpuTimes // of the machine, at the last Read
	last   float64  // the CPU's share, in percent, as it was read last
	known  bool     // last is one
	limits map[string]cpuUsed
}

// cpuTimes are since the machine was started, of all its processors together, in a unit
// that is always the same.
type cpuTimes struct{ busy, total float64 }

// cpuUsed is what a cgroup had used of the CPU at a moment.
type cpuUsed struct {
	used time.Duration
	at   time.Time
}

// New makes a Sampler and takes the first look at the CPU.
func New() *Sampler { return newSampler("/", float64(runtime.NumCPU())) }

// newSampler is New on a machine whose files are below root.
func newSampler(root string, cores float64) *Sampler {
	s := &Sampler{cores: cores, machine: newMachine(root), now: time.Now}
	if runtime.GOOS == "linux" {
		s.cgroups = findCgroups(root)
	}
	s.cpu()
	return s
}

// Read measures now. ok is false when the system does not say, or there was no time
// yet since the first look. Both figures are between 0 and 100.
func (s *Sampler) Read() (now protocol.Load, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cpuPercent, ok := s.cpu()
	if !ok {
		return protocol.Load{}, false
	}
	memory, ok := s.memory()
	if !ok {
		return protocol.Load{}, false
	}
	return protocol.Load{CPUPercent: cpuPercent, MemoryPercent: memory}, true
}

// cpu is the share of the CPU that was used since the last call, of what may be used.
// Two calls within the resolution of the clock get the same answer.
func (s *Sampler) cpu() (percentage float64, ok bool) {
	machine, ok := s.machineCPU() // also when it is not what counts: a limit may go
	limited, fullest := false, 0.0
	now, before := s.now(), s.limits
	s.limits = map[string]cpuUsed{}
	for _, l := range s.cgroups.cpu(s.cores) {
		if !limited {
			limited, ok = true, false
		}
		was, seen := before[l.name]
		elapsed := now.Sub(was.at)
		if seen && elapsed <= 0 { // nothing has passed to be measured
			s.limits[l.name] = was
			continue
		}
		s.limits[l.name] = cpuUsed{used: l.used, at: now}
		if seen {
			fullest, ok = max(fullest, percent(float64(l.used-was.used), float64(elapsed)*l.cores)), true
		}
	}
	if !limited {
		fullest = machine
		s.known = s.known && s.times.total > 0
	}
	if ok {
		s.last, s.known = fullest, true
	}
	return s.last, s.known
}

func (s *Sampler) machineCPU() (percentage float64, ok bool) {
	now, ok := s.machine.cpu()
	if !ok {
		s.times = cpuTimes{}
		return 0, false
	}
	was := s.times
	if now.total <= was.total && was.total > 0 {
		if now.total < was.total { // the machine was put back to an earlier state
			s.times = now
		}
		return 0, false
	}
	s.times = now
	if was.total == 0 {
		return 0, false
	}
	return percent(now.busy-was.busy, now.total-was.total), true
}

// memory is the share of the memory that is used, of what may be used. What can be
// given back at once, as cached files can, does not count.
func (s *Sampler) memory() (percentage float64, ok bool) {
	total, available, ok := s.machine.memory()
	if !ok {
		return 0, false
	}
	limited := false
	fullest := 0.0
	for _, l := range s.cgroups.memory(total) {
		limited = true
		fullest = max(fullest, percent(float64(l.used), float64(l.limit)))
	}
	if limited {
		return fullest, true
	}
	return percent(float64(total)-float64(available), float64(total)), true
}

// percent is a share in percent, to one digit, between 0 and 100 whatever it is given.
func percent(part, whole float64) float64 {
	if !(whole > 0) || !(part > 0) {
		return 0
	}
	return min(100, math.Round(part/whole*1000)/10)
}
