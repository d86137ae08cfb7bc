package gateway

import (
	"crypto/sha256"
	"encoding/hex"
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

func cut(s string, n int) string { return s[:max(0, min(len(s), n))] }

func shortSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:3])
}
