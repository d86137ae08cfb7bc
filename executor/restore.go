package executor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/executor/internal/statefile"
	"github.com/agent-executor/executor/protocol"
)

const (
	// restoreGrace is for how long the first connection waits for sessions from before
	// a restart. One that takes longer says session.ready when it is there.
	restoreGrace = 5 * time.Second
	// restoreAtOnce is how many are prepared at once, within restoreGrace.
	restoreAtOnce = 16
)

// restore brings back the sessions from before a restart, as far as that is possible:
// they are prepared anew, and active when the brain still holds them (spec section
// 14.2). What cannot come back has ended, and the brain is told. The function it
// returns waits for the preparation, until restoreGrace has passed or ctx is done.
func (e *Executor) restore() (wait func(ctx context.Context)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, restoreAtOnce)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, kept := range e.kept {
		s, endReason := e.revive(kept)
		if s == nil {
			e.fence(kept.Assign)
			e.box.ForgetNotes(scopeOf(kept.Assign))
			if endReason != "" {
				e.ended.push(protocol.SessionEndedParams{SessionID: kept.Assign.SessionID, Reason: endReason})
			}
			e.state.change(true)
			continue
		}
		e.sessions[kept.Assign.SessionID] = s
		e.fences.held(kept.Assign.SessionID, kept.Assign.Lease.FencingToken)
		all.Add(1)
		e.work.Go(func() { s.resume(slots, all.Done) })
	}
	if len(e.kept) > 0 {
		e.log.Info("sessions from before the restart", zap.Int("kept", len(e.kept)), zap.Int("restored", len(e.sessions)))
	}
	e.kept = nil
	if e.damaged {
		change := e.state.change(true)
		e.work.Go(func() { e.heal(change) })
	}
	prepared := make(chan struct{})
	e.work.Go(func() {
		all.Wait()
		close(prepared)
	})
	return func(ctx context.Context) {
		limit := time.NewTimer(restoreGrace)
		defer limit.Stop()
		select {
		case <-prepared:
		case <-limit.C:
			e.log.Warn("sessions from before the restart are slow to be prepared, connecting without them")
		case <-ctx.Done():
		}
	}
}

// revive makes a session again, or nil and the reason with which it has ended.
func (e *Executor) revive(kept statefile.Session) (s *session, endReason string) {
	if kept.Ending {
		return nil, kept.EndReason
	}
	if e.damaged {
		e.log.Warn("session cannot come back: the journal was damaged, and calls that it has accepted could run twice", zap.String("session", kept.Assign.SessionID))
		return nil, protocol.ReasonSessionRejected
	}
	s, err := e.reopen(kept)
	if err != nil {
		e.log.Warn("session cannot come back", zap.String("session", kept.Assign.SessionID), zap.Error(err))
		return nil, protocol.ReasonSessionRejected
	}
	s.restored, s.acked = true, kept.Ready
	return s, ""
}

// reopen is newSession where the session was before, and nowhere else.
func (e *Executor) reopen(kept statefile.Session) (*session, error) {
	info, err := os.Stat(e.sessionDir(kept.Assign.SessionID))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", e.sessionDir(kept.Assign.SessionID))
	}
	if err != nil {
		return nil, fmt.Errorf("its workspace is gone: %w", err)
	}
	s, err := e.newSession(kept.Assign)
	if err != nil {
		return nil, err
	}
	if dir := s.caps.Workspace().Dir(); dir != kept.Dir {
		_ = s.caps.Workspace().Close()
		s.cancel(errStopped)
		return nil, fmt.Errorf("its workspace was %s, and is %s now", kept.Dir, dir)
	}
	return s, nil
}

// resume is prepare for a session from before a restart.
func (s *session) resume(slots chan struct{}, prepared func()) {
	late := time.NewTimer(restoreGrace)
	defer late.Stop()
	free := func() {}
	select {
	case slots <- struct{}{}:
		free = func() { <-slots }
	case <-late.C: // others hang
	}
	err := s.startHooks()
	free()
	close(s.prepared)
	if err != nil {
		s.reject(err)
		prepared()
		return
	}
	s.mu.Lock()
	s.hooked = true
	known := s.acked && !s.confirmed // then confirm makes it active
	s.mu.Unlock()
	prepared()
	if !known {
		s.ready()
	}
}

// confirm is called when the brain has said that it holds the session: one that it had
// seen ready before a restart is active again, without another session.ready.
func (s *session) confirm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed = true
	if s.phase == phasePreparing && s.acked && s.hooked {
		s.phase = phaseActive
		s.log.Info("session active again")
		s.report.busy(0)
	}
}

func errRestoring(id string) *protocol.Error {
	return protocol.Errorf(protocol.CodeSessionNotActive, "session_id: %q is being prepared again after a restart of the executor; ask again", clip(id)).WithRetryable(true)
}
