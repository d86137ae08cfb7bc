package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const readme = "../../../../README.md"

var update = flag.Bool("update", false, "write the table of the README, which is made from the code")

// settingsTable is the README's.
func settingsTable() string {
	given := Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(flags, &given)
	var b strings.Builder
	b.WriteString("| flag | variable | key | default | what it is |\n|---|---|---|---|---|\n")
	for _, t := range table {
		_, usage := pflag.UnquoteUsage(flags.Lookup(t.flag))
		key := "`" + t.key() + "`"
		if t.flag == FileFlag {
			key = ""
		}
		_, value, _ := strings.Cut(t.line(&given), ": ")
		if t.flag == FileFlag || t.orNone {
			value = ""
		}
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s | %s |\n", t.flag, t.variable(), key, value, strings.ReplaceAll(usage, "|", "\\|"))
	}
	return b.String()
}

// Every setting is in the README, as the code has it. After a change of the table of
// settings: make docs.
func TestReadmeIsUpToDate(t *testing.T) {
	isolate(t)
	raw, err := os.ReadFile(readme)
	require.NoError(t, err)
	const begin, end = "<!-- settings:begin -->\n", "<!-- settings:end -->"
	have := string(raw)
	i, j := strings.Index(have, begin), strings.Index(have, end)
	require.True(t, i >= 0 && j > i, "the markers of the settings")
	want := have[:i+len(begin)] + settingsTable() + have[j:]
	if *update && have != want {
		require.NoError(t, os.WriteFile(readme, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, have, "%s is not up to date; run: make docs", readme)
}
