package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// separator stands between an executor's name and its tool's, where several executors
// are there.
const separator = "__"

// safeName is name with only what MCP clients take in names: letters, digits, "_" and
// "-", at most limit of them. Where something was lost, a sum of the whole keeps it apart
// from others.
func safeName(name string, limit int) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	safe := b.String()
	if len(safe) <= limit && strings.Trim(safe, "_") != "" {
		return safe
	}
	return cut(safe, limit-7) + "_" + shortSum(name)
}

// joined is prefix__name in at most maxNameBytes.
func joined(prefix, name string) string {
	full := prefix + separator + name
	if len(full) <= maxNameBytes {
		return full
	}
	// The tool's name says more than the executor's.
	room := maxNameBytes - len(separator) - len(name) - 7
	if room >= 4 {
		return cut(prefix, room) + "_" + shortSum(prefix) + separator + name
	}
	return cut(full, maxNameBytes-7) + "_" + shortSum(full)
}

// unique makes names that differ from one another and do not depend on their order: those
// that are the same each get a sum of their key.
func unique(names, keys []string) []string {
	count := map[string]int{}
	for _, n := range names {
		count[n]++
	}
	out := make([]string, len(names))
	for i, n := range names {
		if out[i] = n; count[n] > 1 {
			out[i] = cut(n, maxNameBytes-7) + "_" + shortSum(keys[i])
		}
	}
	return out
}

// differing makes names that differ from one another and from those that are taken. Of
// those that show makes the same, one that it did not change keeps it, or else the first
// in order; the others get a sum of key and name. A name that is there twice is "" the
// second time.
func differing(names []string, key string, taken func(string) bool, show func(string) string) []string {
	order := make([]int, len(names))
	shown := make([]string, len(names))
	for i, n := range names {
		order[i], shown[i] = i, show(n)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		changed := func(i int) int {
			if strings.HasSuffix(shown[i], separator+names[i]) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(changed(a), changed(b)), cmp.Compare(names[a], names[b]))
	})
	out := make([]string, len(names))
	own, used := map[string]bool{}, map[string]bool{}
	for _, i := range order {
		if own[names[i]] {
			continue
		}
		own[names[i]] = true
		name := shown[i]
		for sum := key + "\x00" + names[i]; used[name] || taken(name); sum += "\x00" {
			name = cut(shown[i], maxNameBytes-7) + "_" + shortSum(sum)
		}
		out[i], used[name] = name, true
	}
	return out
}

func cut(s string, n int) string { return s[:max(0, min(len(s), n))] }

func shortSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:3])
}
