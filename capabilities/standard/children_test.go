package standard_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/capabilities/standard"
)

// The capabilities keep their contract also with children that are kept hold of, and
// orphans are waited for as long as they are.
func TestChildren(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh") // who runs the tests may have a profile that takes its time
	children := standard.NewChildren()
	assert.Equal(t, standard.Means{}, children.Means(), "nothing before Open")
	report := children.Open(t.TempDir())
	assert.Equal(t, standard.Report{}, report)
	means := children.Means()
	assert.Equal(t, runtime.GOOS == "linux", means.ParentDeath)
	assert.NotEqual(t, means.Cgroup == "", means.NoCgroup == "", "one or the other is said")
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
	assert.Empty(t, children.Close(), "twice is fine")
}
