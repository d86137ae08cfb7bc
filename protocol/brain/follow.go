package brain

import "github.com/agent-executor/executor/protocol"

// Follow has f told what the call with that id says while it runs, which may begin
// later: Start takes the same id. Its calls come in order for each connection, on a
// goroutine of the Brain that f must not hold up; when it does, progress is dropped.
// After stop has returned f is not called any more, but for a call that is under way.
// One id has one follower, the last.
func (s *Session) Follow(toolCallID string, f func(protocol.ToolProgressParams)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers == nil {
		s.followers = map[string]func(protocol.ToolProgressParams){}
	}
	s.followers[toolCallID] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followers, toolCallID)
	}
}

// progress hands on what a call says.
func (s *Session) progress(p protocol.ToolProgressParams) {
	s.mu.Lock()
	f := s.followers[p.ToolCallID]
	s.mu.Unlock()
	if f != nil {
		f(p)
	}
}
