package process

import (
	"errors"
	"os"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// terminal is the near side of a PTY. There is none on Windows.
type terminal struct{}

func terminalsWork() bool { return false }

func openTerminal(int, int) (*terminal, *os.File, error) {
	return nil, nil, errors.New("not supported on Windows")
}

func (t *terminal) input() way { return way{} }

func (t *terminal) resize(int, int) error { return nil }

func (t *terminal) pump(spawn.Sink) {}

func (t *terminal) exited() bool { return true }

func (t *terminal) settled() <-chan struct{} { return closed() }

func (t *terminal) close() {}
