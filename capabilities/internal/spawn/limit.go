package spawn

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limit is a resource limit of the system, by its name in lower case and without RLIMIT_: "nofile". Both
// the soft limit and the hard one get the value, so that a command cannot raise it.
type Limit struct {
	Name  string
	Value uint64 // in the system's unit: bytes, seconds, or a number; NoLimit for none
}

// NoLimit is the value of a limit that does not limit.
const NoLimit uint64 = math.MaxUint64

// ParseLimit reads NAME=VALUE: a number, with K, M, G or T for powers of 1024, or "unlimited".
func ParseLimit(text string) (Limit, error) {
	name, value, ok := strings.Cut(text, "=")
	l := Limit{Name: strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "rlimit_")}
	if !ok || l.Name == "" {
		return l, fmt.Errorf("limit %q: want NAME=VALUE, such as nofile=1024", text)
	}
	if value = strings.ToLower(strings.TrimSpace(value)); value == "unlimited" || value == "infinity" {
		l.Value = NoLimit
		return l, l.check()
	}
	shift := 0
	if n := len(value); n > 0 {
		if i := strings.IndexByte("kmgt", value[n-1]); i >= 0 {
			shift, value = 10*(i+1), value[:n-1]
		}
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n > (NoLimit-1)>>shift {
		return l, fmt.Errorf("limit %q: want a number, also with K, M, G or T behind it, or unlimited", text)
	}
	l.Value = n << shift
	return l, l.check()
}

// String is the limit as ParseLimit reads it.
func (l Limit) String() string {
	if l.Value == NoLimit {
		return l.Name + "=unlimited"
	}
	return l.Name + "=" + strconv.FormatUint(l.Value, 10)
}

// check says whether this system has such a limit.
func (l Limit) check() error {
	names := resources()
	if _, ok := names[l.Name]; ok || len(names) == 0 {
		return nil // where there are none the policy as a whole is refused
	}
	return fmt.Errorf("limit %q: there is none of that name; there are %s", l.Name, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
}
