package spawn

// Masker changes secrets in a stream into as many other bytes. It is used by one goroutine at a time.
type Masker interface {
	// Mask takes the next piece and returns what can go out now, which is valid until the next call. It may
	// hold back the end of a piece, and does not change p.
	Mask(p []byte) []byte
	// Flush returns what was held back.
	Flush() []byte
}

// masked puts a Masker in front of a sink, when one is configured.
func (l *launch) masked(env []string, sink Sink) Sink {
	if l == nil || l.Mask == nil || sink == nil {
		return sink
	}
	m := l.Mask(env)
	return func(p []byte) {
		if len(p) == 0 {
			if rest := m.Flush(); len(rest) > 0 {
				sink(rest)
			}
			sink(nil)
			return
		}
		if out := m.Mask(p); len(out) > 0 {
			sink(out)
		}
	}
}

// masked is that for a command of the group.
func (g *Group) masked(c Command, sink Sink) Sink {
	if c.Raw {
		return sink
	}
	return g.launch.masked(c.Env, sink)
}

// Masked puts in front of a sink what is in front of those of the keeper's children: for a stream that is
// read in another way, such as a terminal's.
func (k *Keeper) Masked(env []string, sink Sink) Sink { return k.policy().masked(env, sink) }
