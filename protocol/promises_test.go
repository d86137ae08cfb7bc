package protocol_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var namedTest = regexp.MustCompile("`([a-z/-]+)\\.(Test[A-Za-z0-9]+)`")

// Every promise names the tests that hold it, and each of them is there.
func TestPromisesAreTested(t *testing.T) {
	_, rest, found := strings.Cut(readDocument(t), "<!-- promises:begin -->\n")
	require.True(t, found)
	table, _, found := strings.Cut(rest, "<!-- promises:end -->")
	require.True(t, found)
	rows := strings.Split(strings.TrimSpace(table), "\n")[2:]
	require.Greater(t, len(rows), 20)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		require.Len(t, cells, 4, row)
		tests := namedTest.FindAllStringSubmatch(cells[3], -1)
		require.NotEmpty(t, tests, "no test is named: %s", row)
		require.Empty(t, strings.TrimSpace(namedTest.ReplaceAllString(cells[3], "")), "not a test: %s", row)
		for _, name := range tests {
			assert.True(t, isTest(t, filepath.Join("..", filepath.FromSlash(name[1])), name[2]), "there is no %s.%s, which this line names: %s", name[1], name[2], row)
		}
	}
}

// isTest reports whether a directory has a test of that name.
func isTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {\n")
	})
}
