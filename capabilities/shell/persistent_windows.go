package shell

import (
	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// keeper keeps nothing: a persistent shell needs named pipes and signals.
type keeper struct{}

func newKeeper(*capabilities.Session, *spawn.Keeper) *keeper { return nil }

func (k *keeper) close() {}

func (k *keeper) release() {}

func (s *Shell) installPersistent(*capabilities.Registrar) {}
