package oversight

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/executor/approval"
)

// What the brain says cannot pass for the executor's own words.
func TestPrintApprovals(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	item := approval.Item{ID: "abc", Tool: "bash\x1b[2J", What: "rm x\nabc  read, waits\r\n\x1b]0;x\x07\u202etxt", Dir: "/w\n", Session: "s\x1b", Since: now.Add(-time.Minute), Expires: now.Add(9 * time.Minute), Rule: "trust ask", Why: "x\ny"}
	var out bytes.Buffer
	require.NoError(t, PrintApprovals(&out, []approval.Item{item}, now))
	assert.Equal(t, "abc  bash\\x1b[2J, has waited for 1m0s, is denied in 9m0s\n  | rm x\n  | abc  read, waits\n  | \\x1b]0;x\\x07\\u202etxt\n  in       $'/w\\n'\n  session  $'s\\x1b'\n  because  trust ask: x y\n\nexecutor approve ID [--session|--always], or executor deny ID\n", out.String())
	out.Reset()
	require.NoError(t, PrintApprovals(&out, nil, now))
	assert.Equal(t, "no call waits for you\n", out.String())
}
