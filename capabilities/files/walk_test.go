package files

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Case 85: on a disk that ignores case another spelling is the same directory.
func TestPrivateDirsInAnySpelling(t *testing.T) {
	for name, want := range map[string]bool{".git": true, ".GIT": true, ".Executor": true, ".github": false, "git": false} {
		assert.Equal(t, want, isPrivate(name), name)
	}
}
