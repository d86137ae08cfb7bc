package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

func TestResultsAreKeptOnceAndOutliveTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results")
	first := protocol.ToolResultParams{SessionID: "s", ToolCallID: "1", Outcome: "succeeded"}
	second := protocol.ToolResultParams{SessionID: "s", ToolCallID: "2", Outcome: "failed"}
	put := func(p protocol.ToolResultParams) bool { // into the file as a new start of the program finds it
		r := openResults(path).(*results)
		defer func() { require.NoError(t, r.file.Close()) }()
		fresh, err := r.Put(t.Context(), p)
		require.NoError(t, err)
		again, err := r.Put(t.Context(), p)
		require.NoError(t, err)
		require.False(t, again, "it is kept already")
		return fresh
	}
	require.True(t, put(first))
	require.False(t, put(first))

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole, `{"session_id":"s","tool_call`...), 0o600)) // a crash while writing
	require.True(t, put(second))
	require.False(t, put(second))
	require.False(t, put(first))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `^\{.*"tool_call_id":"1".*\}\n\{.*"tool_call_id":"2".*\}\n$`, string(after))
}
