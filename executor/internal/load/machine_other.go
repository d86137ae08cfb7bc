//go:build !linux

package load

import (
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
)

// machine reads the figures of the machine itself.
type machine struct{}

func newMachine(string) machine { return machine{} }

// cpu is how long the processors have worked, and how long there was to work, since the
// machine was started, in any unit.
func (machine) cpu() (t cpuTimes, ok bool) {
	times, err := cpu.Times(false)
	if err != nil || len(times) != 1 {
		return t, false
	}
	all := times[0]
	t.busy = all.User + all.System + all.Nice + all.Irq + all.Softirq + all.Steal
	t.total = t.busy + all.Idle + all.Iowait
	return t, true
}

// memory is in bytes: what there is, and what of it can be had at once.
func (machine) memory() (total, available uint64, ok bool) {
	m, err := mem.VirtualMemory()
	if err != nil || m == nil || m.Total == 0 {
		return 0, 0, false
	}
	return m.Total, m.Available, true
}

// readFile is for the cgroups of Linux.
func readFile(string) string { return "" }
