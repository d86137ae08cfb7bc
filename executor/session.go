package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Phases of a session.
const (
	phasePreparing = "preparing"
	phaseActive    = "active"
	phaseEnding    = "ending"
)

// session is one assignment. It outlives connections; end ends it.
type session struct {
	e      *Executor
	assign protocol.SessionAssignParams
	caps   *capabilities.Session
	ctx    context.Context
	cancel context.CancelCauseFunc
	log    *zap.Logger
	report statusReporter
	before *session      // the assignment this one takes over from
	gone   chan struct{} // closed when everything of it has ended

	prepared chan struct{} // closed when the capabilities' start hooks have returned
	started  bool          // the end hooks are to be called; set before prepared is closed

	restored bool   // it is from before a restart
	recorded uint64 // what to wait for before it is answered for
	endKept  uint64 // the same for its end; set before gone is closed

	mu        sync.Mutex
	phase     string
	acked     bool   // the brain has acknowledged session.ready, maybe before a restart
	hooked    bool   // the start hooks of a restored session have returned
	confirmed bool   // the brain has said that it holds the session
	endReason string // of session.ended; "" when it is not said
	running   map[string]*call
	processes int            // and other work that is no call
	calls     sync.WaitGroup // those without a result
}

// sessionAssign takes a session, or the same one again (spec section 5). It answers
// when the session is recorded; the preparation goes on behind the answer.
func (e *Executor) sessionAssign(ctx context.Context, p protocol.SessionAssignParams) (protocol.SessionAssignResult, error) {
	s, err := e.take(p)
	if err == nil {
		err = e.state.wait(ctx, s.recorded)
	}
	return protocol.SessionAssignResult{Accepted: err == nil, SessionID: p.SessionID}, err
}

// take returns the session of an assignment, which begins with it, or is the same.
func (e *Executor) take(p protocol.SessionAssignParams) (*session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := e.sessions[p.SessionID]
	again, err := e.checkFencing(held, p)
	switch {
	case err != nil:
		return nil, err
	case again:
		// The brain asks since it does not know of the session.ready: it may have lost it
		// with the connection on which it had acknowledged it.
		if held.isActive() {
			e.work.Go(held.ready)
		}
		return held, nil
	case e.draining:
		return nil, errDraining()
	case held == nil && len(e.sessions) >= e.opts.MaxSessions:
		return nil, protocol.Errorf(protocol.CodeExecutorBusy, "%d sessions are assigned, which is the limit", len(e.sessions))
	}
	s, err := e.newSession(p)
	if err != nil {
		return nil, err
	}
	s.before = held
	e.sessions[p.SessionID] = s
	e.fences.held(p.SessionID, p.Lease.FencingToken)
	e.ended.drop(p.SessionID)
	s.recorded = e.state.change(true)
	e.work.Go(s.prepare)
	return s, nil
}

// checkFencing says whether the assignment is the one already held. e.mu is held.
func (e *Executor) checkFencing(held *session, p protocol.SessionAssignParams) (again bool, err error) {
	token, ended := e.fences.get(p.SessionID)
	if held != nil {
		token = held.assign.Lease.FencingToken
	}
	switch got := p.Lease.FencingToken; {
	case held == nil && !ended:
		return false, nil
	case got < token:
		return false, protocol.Errorf(protocol.CodeConflict, "lease.fencing_token: %d is lower than %d, the one already seen for this session", got, token)
	case got > token:
		return false, nil
	case held == nil:
		return false, protocol.Errorf(protocol.CodeConflict, "the session has ended; assign it again with a fencing_token above %d", token)
	case held.assign.WorkID != p.WorkID:
		return false, protocol.Errorf(protocol.CodeConflict, "work_id: the session is held for work %q with the same fencing_token", held.assign.WorkID)
	}
	return true, nil
}

func (e *Executor) newSession(p protocol.SessionAssignParams) (*session, error) {
	dir := e.sessionDir(p.SessionID)
	if e.opts.Workspace.PerSession {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, protocol.Errorf(protocol.CodeResourceUnavailable, "session workspace: %v", err).WithReason(protocol.ReasonWorkspaceUnavailable)
		}
	}
	workspace, err := capabilities.OpenWorkspace(dir, e.opts.Workspace.Roots)
	if err != nil {
		return nil, err
	}
	s := &session{e: e, assign: p, phase: phasePreparing, gone: make(chan struct{}),
		prepared: make(chan struct{}), running: map[string]*call{},
		log: e.log.With(zap.String("session", p.SessionID))}
	s.report.s = s
	s.ctx, s.cancel = context.WithCancelCause(e.life)
	s.caps = capabilities.NewSession(s.ctx, capabilities.SessionConfig{
		Assign: p, Workspace: workspace, Peer: peer{e}, Logger: e.opts.Logger, Working: s.working,
		Memory: e.memoryOf(p), Limits: e.limits, Ask: e.askAbout, Tell: e.tellOf(p.SessionID),
	})
	return s, nil
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// maxPlainID is looked at apart: in the expression it would be a state for every character.
const maxPlainID = 64

// sessionDir is where a session works.
func (e *Executor) sessionDir(id string) string {
	dir := e.opts.Workspace.Roots[0].Path
	if !e.opts.Workspace.PerSession {
		return dir
	}
	if len(id) > maxPlainID || !plainID.MatchString(id) { // any string can be an id, but not every one is a name
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:16])
	}
	return filepath.Join(dir, id)
}

// prepare brings the session up and tells the brain that it is ready.
func (s *session) prepare() {
	if s.before != nil {
		s.before.end(errReplacedWork, "")
	}
	s.log.Info("session assigned", zap.String("work", s.assign.WorkID))
	s.report.set(protocol.StatusStarting, "")
	err := s.startHooks()
	close(s.prepared)
	if err != nil {
		s.reject(err)
		return
	}
	_ = s.e.state.wait(s.ctx, s.recorded) // what the brain is told survives a crash
	s.ready()
}

// ready tells the brain that the session is ready, until it has acknowledged it.
func (s *session) ready() {
	if err := s.sayReady(); err != nil {
		s.reject(err)
	}
}

// reject ends a session that cannot be used, unless somebody else ends it.
func (s *session) reject(err error) {
	if s.ctx.Err() != nil {
		return
	}
	s.log.Warn("session could not be prepared", zap.Error(err))
	s.report.set(protocol.StatusError, err.Error())
	s.end(errStopped, protocol.ReasonSessionRejected)
}

// startHooks calls the capabilities' start hooks, within the assignment's deadline.
func (s *session) startHooks() (err error) {
	ctx := s.ctx
	if s.assign.DeadlineMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, protocol.Millis(s.assign.DeadlineMS))
		defer cancel()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	defer s.recovered("start of session", &err)
	s.started = true // also of a panic: nobody else ends what has begun
	if err := s.e.registry.StartSession(ctx, s.caps); err != nil {
		s.started = false // what had begun was ended again
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the session was not prepared in time: %w", ctx.Err())
	}
	return nil
}

func (s *session) endHooks() {
	var err error
	defer s.recovered("end of session", &err)
	s.e.registry.EndSession(s.caps)
}

// recovered turns the panic of a hook into an error.
func (s *session) recovered(what string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("hook panicked", zap.String("hook", what), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		*err = protocol.Errorf(protocol.CodeInternalError, "%s failed unexpectedly: %v", what, p)
	}
}

// sayReady sends session.ready until the brain has acknowledged it. The session is
// active from the moment the acknowledgement is read: requests behind it on the same
// connection are taken (spec section 14.1).
func (s *session) sayReady() error {
	params := protocol.SessionReadyParams{SessionID: s.assign.SessionID, WorkID: s.assign.WorkID, LeaseToken: s.assign.Lease.Token, MCP: s.caps.MCP()}
	retry := newResultRetry()
	for {
		c, err := s.e.waitConn(s.ctx)
		if err != nil {
			return err
		}
		if !c.owns() {
			s.e.awaitLoss(s.ctx, c)
			continue
		}
		ctx, cancel := c.timeout(s.ctx)
		answer, err := rpc.CallInOrder(ctx, c.rpc, protocol.SessionReady, params, func(r protocol.AcceptedResult) {
			if r.Accepted {
				s.activate()
			}
		})
		cancel()
		if err == nil && answer.Accepted {
			return nil
		}
		if err == nil {
			err = errNotAccepted(protocol.SessionReady.Name)
		}
		var refused *protocol.Error
		switch {
		case errors.Is(err, rpc.ErrClosed):
			s.e.awaitLoss(s.ctx, c) // and say it again on the next one
			continue
		case errors.As(err, &refused) && !refused.Data.Retryable:
			return fmt.Errorf("session.ready: %w", err)
		}
		select {
		case <-time.After(retry.NextBackOff()):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

func (s *session) isActive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == phaseActive
}

func (s *session) activate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.acked {
		s.acked = true
		s.e.state.change(false)
	}
	if s.phase == phasePreparing {
		s.phase = phaseActive
		s.log.Info("session active")
		s.report.busy(0)
	}
}

// sessionStop ends a session; for one that is not there it has nothing to do. The end
// goes on when the connection is lost meanwhile, and holds up no new one.
func (e *Executor) sessionStop(ctx context.Context, p protocol.SessionStopParams) (protocol.SessionStopResult, error) {
	e.mu.Lock()
	s := e.sessions[p.SessionID]
	e.mu.Unlock()
	if s == nil {
		return protocol.SessionStopResult{Stopped: true}, nil
	}
	s.log.Info("session is stopped", zap.String("reason", clip(p.Reason)))
	e.work.Go(func() { s.end(errStopped, endedStopped) })
	select {
	case <-s.gone:
		err := e.state.wait(ctx, s.endKept)
		return protocol.SessionStopResult{Stopped: err == nil}, err
	case <-ctx.Done():
		return protocol.SessionStopResult{}, ctx.Err()
	}
}

// Reasons of session.ended.
const (
	endedStopped = "stopped"
	endedDrained = "drained"
)

// end cancels the session's calls, waits for their results and for everything the
// capabilities hold for it. A reason is told to the brain with session.ended. It may
// be called more than once; each call returns when everything has ended.
func (s *session) end(cause *protocol.Error, reason string) {
	s.mu.Lock()
	if s.phase == phaseEnding {
		s.mu.Unlock()
		<-s.gone
		return
	}
	s.phase, s.endReason = phaseEnding, reason
	s.mu.Unlock()
	defer close(s.gone)
	s.e.state.change(false) // the end goes on after a crash
	s.report.set(protocol.StatusStopping, "")
	s.cancel(cause)
	s.calls.Wait()
	<-s.prepared
	if s.started {
		s.endHooks()
	}
	if err := s.caps.Workspace().Close(); err != nil {
		s.log.Warn("workspace was not closed", zap.Error(err))
	}
	s.report.stop()
	e := s.e
	e.box.ForgetNotes(scopeOf(s.assign))
	if reason == "" { // to the brain it has ended before
		e.notices.forget(s.assign.SessionID)
	}
	e.mu.Lock()
	if e.sessions[s.assign.SessionID] == s {
		delete(e.sessions, s.assign.SessionID)
		e.fence(s.assign)
	}
	if reason != "" {
		e.ended.push(protocol.SessionEndedParams{SessionID: s.assign.SessionID, Reason: reason})
	}
	s.endKept = e.state.change(true)
	e.mu.Unlock()
	s.log.Info("session ended", zap.String("reason", reason))
}

func errDraining() *protocol.Error {
	return protocol.Errorf(protocol.CodeExecutorBusy, "the executor is draining and takes no new work").WithReason(protocol.ReasonDraining)
}

var errNoConnection = fmt.Errorf("no connection to the brain")
