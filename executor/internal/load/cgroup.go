package load

import (
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cgroups are where the limits of this process are found: the directories of its
// cgroups and of those above them, its own first. Either version may limit either
// resource, since a machine may have both.
type cgroups struct {
	unified  []string // version 2
	cpuLimit []string // version 1, the controller cpu
	cpuUsage []string // version 1, the controller cpuacct, as many as cpuLimit
	memories []string // version 1, the controller memory
}

// cpuLimit is a cgroup that may use less of the CPU than the machine has.
type cpuLimit struct {
	name  string
	cores float64
	used  time.Duration
}

// memoryLimit is a cgroup that may use less memory than the machine has, in bytes.
type memoryLimit struct{ used, limit uint64 }

// findCgroups looks up the cgroups of this process. Where there are none, or none that
// can be read, the list is empty.
func findCgroups(root string) cgroups {
	mounts := cgroupMounts(root)
	var c cgroups
	for line := range strings.Lines(readFile(filepath.Join(root, "proc/self/cgroup"))) {
		// number:controllers:path; version 2 has the number 0 and no controllers
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			c.unified = mounts.levels("", parts[2])
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			switch controller {
			case "cpu":
				c.cpuLimit = mounts.levels(controller, parts[2])
			case "cpuacct":
				c.cpuUsage = mounts.levels(controller, parts[2])
			case "memory":
				c.memories = mounts.levels(controller, parts[2])
			}
		}
	}
	if len(c.cpuUsage) != len(c.cpuLimit) { // who is limited and who is counted differ
		c.cpuLimit, c.cpuUsage = nil, nil
	}
	return c
}

// mount is one place a cgroup file system is seen at.
type mount struct {
	controllers []string // nil: version 2
	within      string   // the cgroup that is seen as the top
	at          string
}

type mounts []mount

func cgroupMounts(root string) mounts {
	var list mounts
	for line := range strings.Lines(readFile(filepath.Join(root, "proc/self/mountinfo"))) {
		// id parent major:minor root mount-point options... - type source super-options
		before, after, found := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{within: unescape(fields[3]), at: filepath.Join(root, unescape(fields[4]))}
		switch kind[0] {
		case "cgroup2":
		case "cgroup":
			m.controllers = strings.Split(kind[2], ",")
		default:
			continue
		}
		list = append(list, m)
	}
	return list
}

// levels are the directories of a cgroup and of all above it, its own first.
func (list mounts) levels(controller, cgroup string) []string {
	for _, m := range list {
		if controller == "" && m.controllers != nil || controller != "" && !slices.Contains(m.controllers, controller) {
			continue
		}
		// In a container the top that is seen is a cgroup further down, and the name of
		// one's own may be that of the machine, or lead out of what is seen.
		below := path.Clean("/" + cgroup)
		if m.within != "/" {
			rest, ok := strings.CutPrefix(below, m.within)
			if !ok || rest != "" && rest[0] != '/' {
				rest = ""
			}
			below = path.Clean("/" + rest)
		}
		if strings.HasPrefix(cgroup, "/..") {
			below = "/"
		}
		var dirs []string
		for ; ; below = path.Dir(below) {
			dirs = append(dirs, filepath.Join(m.at, filepath.FromSlash(below)))
			if below == "/" {
				return dirs
			}
		}
	}
	return nil
}

// cpu are the limits below that many cores.
func (c cgroups) cpu(cores float64) []cpuLimit {
	var list []cpuLimit
	for _, dir := range c.unified {
		fields := strings.Fields(readFile(filepath.Join(dir, "cpu.max")))
		if len(fields) != 2 {
			continue
		}
		limit := quota(fields[0], fields[1])
		if limit >= cores {
			continue
		}
		if used, ok := member(filepath.Join(dir, "cpu.stat"), "usage_usec"); ok {
			list = append(list, cpuLimit{name: dir, cores: limit, used: clampDuration(used, time.Microsecond)})
		}
	}
	for i, dir := range c.cpuLimit {
		limit := quota(readFile(filepath.Join(dir, "cpu.cfs_quota_us")), readFile(filepath.Join(dir, "cpu.cfs_period_us")))
		if limit >= cores {
			continue
		}
		if used, ok := number(readFile(filepath.Join(c.cpuUsage[i], "cpuacct.usage"))); ok {
			list = append(list, cpuLimit{name: dir, cores: limit, used: clampDuration(used, 1)})
		}
	}
	return list
}

// quota is a limit in cores; without one it is infinite.
func quota(allowed, period string) float64 {
	a, isLimit := number(allowed) // else "max", or -1
	p, ok := number(period)
	if !isLimit || !ok || a == 0 || p == 0 {
		return math.Inf(1)
	}
	return float64(a) / float64(p)
}

// memory are the limits below that many bytes.
func (c cgroups) memory(total uint64) []memoryLimit {
	var list []memoryLimit
	add := func(dirs []string, limit, used, inactive string) {
		for _, dir := range dirs {
			l, ok := number(readFile(filepath.Join(dir, limit))) // else "max"
			if !ok || l == 0 || l >= total {
				continue
			}
			u, ok := number(readFile(filepath.Join(dir, used)))
			if !ok {
				continue
			}
			reclaimable, _ := member(filepath.Join(dir, "memory.stat"), inactive)
			list = append(list, memoryLimit{used: u - min(u, reclaimable), limit: l})
		}
	}
	add(c.unified, "memory.max", "memory.current", "inactive_file")
	add(c.memories, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
	return list
}

// member is one line of a file of the form "name number".
func member(file, name string) (uint64, bool) {
	for line := range strings.Lines(readFile(file)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return number(rest)
		}
	}
	return 0, false
}

func number(text string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	return n, err == nil
}

func clampDuration(n uint64, unit time.Duration) time.Duration {
	return time.Duration(min(n, uint64(math.MaxInt64)/uint64(unit))) * unit
}

// unescape undoes \040 and the like of a list of mounts.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
