package git

import (
	"testing"

	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What git says of somebody who was faster invites to try again; what it says of the
// call itself does not.
func TestFailuresThatPass(t *testing.T) {
	for words, want := range map[string]struct {
		reason string
		again  bool
	}{
		"fatal: Unable to create '/w/.git/index.lock': File exists.":                       {"conflict", true},
		"fatal: cannot lock ref 'HEAD': is at 1111 but expected 2222":                      {"conflict", true},
		"error: could not lock config file .git/config: File exists":                       {"conflict", true},
		"fatal: Unable to create '/w/.git/refs/heads/main.lock': File exists.\n\nAnother…": {"conflict", true},
		"On branch main\nnothing to commit, working tree clean":                            {"conflict", false},
		"fatal: bad revision 'nowhere'":                                                    {"not_found", false},
		"fatal: something new":                                                             {"internal_error", false},
	} {
		var e *protocol.Error
		require.ErrorAs(t, failure(words, "", 128), &e)
		assert.Equal(t, want.reason, e.Reason(), words)
		assert.Equal(t, want.again, e.Data.Retryable, words)
	}
}
