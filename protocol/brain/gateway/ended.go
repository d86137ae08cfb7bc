package gateway

import (
	"errors"
	"strings"

	"github.com/agent-executor/executor/protocol"
)

// finish says that the server is not there any more, and why.
func (p *passage) finish(err error) {
	p.mu.Lock()
	p.ended = err
	p.mu.Unlock()
	p.once.Do(func() { close(p.first) })
}

// whyNot is why a tool is not there that would be one of a server's; nil when it is none,
// or nobody knows. The library says then that it is unknown.
func (c *client) whyNot(t *table, name string) error {
	if c.knows(name) {
		return nil
	}
	for _, p := range c.passages(t) {
		start := joined(safeName(p.key, maxNameBytes/2), "")
		if p.prefix != "" {
			start = joined(p.prefix, start)
		}
		if !strings.HasPrefix(name, start) {
			continue
		}
		p.mu.Lock()
		ready, ended := p.ready, p.ended
		p.mu.Unlock()
		switch {
		case ended != nil:
			return invalid("tool %q is not there: server %s has ended: %s", name, p.key, endOf(p.key, ended))
		case !ready:
			return invalid("tool %q is not there: server %s is not running just now, but may be soon; try again", name, p.key)
		}
	}
	return nil
}

// endOf is why a server has ended, without what was said before it already.
func endOf(key string, err error) string {
	text := err.Error()
	var e *protocol.Error
	if errors.As(err, &e) {
		text = e.Message
	}
	text = strings.TrimPrefix(text, "server "+key)
	text = strings.TrimPrefix(text, " has exited")
	return strings.TrimPrefix(text, ": ")
}
