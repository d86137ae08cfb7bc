// Package capabilitytest runs capabilities in tests as the executor would, with
// everything in memory but the workspace, which is a temporary directory:
//
//	func TestContract(t *testing.T) {
//		capabilitytest.Run(t, func() capabilities.Capability { return counter.New(counter.Options{}) })
//	}
//
//	func TestCount(t *testing.T) {
//		s := capabilitytest.NewSession(t, counter.New(counter.Options{}))
//		result, err := capabilitytest.Call(t, s, "count", map[string]any{"by": 2})
//		require.NoError(t, err) // it was accepted
//		require.Equal(t, "2", result.Content[0].Text)
//	}
//
// The parts: [Run] holds the contract that every capability passes. [Host] has the
// installed capabilities and the [Peer] that plays the brain; its [Session]s take
// calls with [Call] and requests with [Do]. [Pipe] is an MCP or terminal channel.
package capabilitytest
