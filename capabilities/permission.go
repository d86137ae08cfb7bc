package capabilities

import (
	"context"
	"encoding/json"
)

// Wish is something that a capability is about to begin on the brain's word and for which the brain sends
// no call and no request of its own: a server that an assignment names, for example.
type Wish struct {
	// Name says what kind of thing it is, like the name of a method: "mcp.start".
	Name string
	// ID is what it is about, and Input what the brain has sent of it, as JSON, without secrets: both are
	// written down and shown to the local user.
	ID    string
	Input json.RawMessage
	// Effect is what it is going to do.
	Effect Effect
}

// Permission is the host's answer to a Wish. The zero Permission lets it be done.
type Permission struct {
	// Refused is why it is not done, a *protocol.Error. The rest is not set then.
	Refused error
	// Wait returns when it may be done, or with a *protocol.Error that says why not. The end of its context
	// decides nothing. nil: there is nothing to wait for.
	Wait func(ctx context.Context) error
	// Ended is called once: when it has ended, with its error, or when it was not begun after all. nil: nobody
	// wants to know.
	Ended func(begun bool, err error)
}

// Ask asks whether something may be done that a call or a request of the brain would have to be let through
// for. It does not wait. Without a host that decides, all may be done.
func (s *Session) Ask(w Wish) Permission {
	if s.config.Ask == nil {
		return Permission{}
	}
	return s.config.Ask(s, w)
}
