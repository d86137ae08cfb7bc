package shell

import "github.com/agent-executor/executor/capabilities"

// keeper keeps nothing: a persistent shell needs named pipes and signals.
type keeper struct{}

func newKeeper(*capabilities.Session) *keeper { return nil }

func (k *keeper) close() {}

func (k *keeper) release() {}

func (s *Shell) installPersistent(*capabilities.Registrar) {}
