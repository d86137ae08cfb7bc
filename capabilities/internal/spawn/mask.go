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
func (l *launch) masked(sink Sink) Sink {
	if l == nil || l.Mask == nil || sink == nil {
		return sink
	}
	m := l.Mask()
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
