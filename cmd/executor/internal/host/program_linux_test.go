package host

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Code and constants are let go, and are there again when they are needed; what was
// written to is not touched.
func TestForgetProgram(t *testing.T) {
	exe, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	maps := programMaps(exe)
	require.NotEmpty(t, maps)
	for _, m := range maps {
		assert.Less(t, m.start, m.end)
	}
	kept := make([]int, 1000)
	for i := range kept {
		kept[i] = i
	}
	for range 3 {
		forgetProgram()
		for i := range kept {
			require.Equal(t, i, kept[i])
		}
	}
	assert.Empty(t, programMaps("/no/such/file"))
}
