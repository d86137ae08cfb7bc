package shell

import (
	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// stateKey is where a session keeps its state.
type stateKey struct{}

// state is what the commands of a session have in common.
type state struct {
	group *spawn.Group
	shell *keeper
	tasks *tasks
}

func (s *Shell) newState(session *capabilities.Session) *state {
	return &state{group: s.options.Children.NewGroup(), shell: newKeeper(session, s.options.Children), tasks: newTasks(session, s.options)}
}

func stateOf(session *capabilities.Session) (*state, error) {
	st, ok := session.Value(stateKey{}).(*state)
	if !ok {
		return nil, protocol.Errorf(protocol.CodeSessionNotActive, "the session runs no commands")
	}
	return st, nil
}
