//go:build linux && (amd64 || arm64)

package standard_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/capabilities/standard"
)

// The capabilities keep their contract in a sandbox too.
func TestSandbox(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base) // the sessions' directories are in it
	for _, mode := range standard.SandboxModes()[2:] {
		t.Run(mode, func(t *testing.T) {
			children := standard.NewChildren()
			if err := children.Configure(standard.Launch{Sandbox: &standard.Sandbox{Mode: mode, Roots: []standard.SandboxRoot{{Path: base}}}}); err != nil {
				t.Skip(err)
			}
			require.Equal(t, standard.Report{}, children.Open(t.TempDir()))
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { standard.ReapOrphans(ctx) })
			for i, name := range names(standard.All(standard.Config{})) {
				t.Run(name, func(t *testing.T) {
					capabilitytest.Run(t, func() capabilities.Capability { return standard.All(standard.Config{Children: children})[i] })
				})
			}
			cancel()
			wg.Wait()
			assert.Empty(t, children.Close())
		})
	}
}

func TestDescribeSandbox(t *testing.T) {
	_, err := standard.DescribeSandbox(standard.Sandbox{})
	assert.ErrorContains(t, err, "--root")
	_, err = standard.DescribeSandbox(standard.Sandbox{Roots: []standard.SandboxRoot{{Path: "/"}}})
	assert.ErrorContains(t, err, "root /")
	_, err = standard.DescribeSandbox(standard.Sandbox{Mode: "box", Roots: []standard.SandboxRoot{{Path: t.TempDir()}}})
	assert.ErrorContains(t, err, "bubblewrap")
	words, err := standard.DescribeSandbox(standard.Sandbox{Roots: []standard.SandboxRoot{{Path: t.TempDir()}}})
	if err == nil {
		assert.Contains(t, words[0], "sandbox: ")
	}
}
