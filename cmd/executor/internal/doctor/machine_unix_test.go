//go:build unix

package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFileLimits(t *testing.T) {
	assert.Equal(t, fail("raise it: LimitNOFILE=65536 in the unit, or ulimit -Hn", "only 128 files may be open"), judgeFiles(128))
	assert.Equal(t, Warn, judgeFiles(1024).Status)
	assert.Equal(t, ok("4096 files may be open"), judgeFiles(4096))
	assert.Equal(t, ok("any number of files may be open"), judgeFiles(1<<63))
	assert.NotEmpty(t, Limits(t.Context()).Text)
}

func TestPTY(t *testing.T) {
	r := PTY(t.Context())
	if r.Status == Fail {
		t.Skip(r.Text)
	}
	assert.Contains(t, r.Text, "was made")
}
