package files_test

import (
	"testing"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/capabilities/files"
)

func TestContract(t *testing.T) {
	capabilitytest.Run(t, func() capabilities.Capability { return files.New(files.Options{}) })
}
