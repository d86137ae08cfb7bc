package executor

import (
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/executor/internal/dirlock"
	"github.com/agent-executor/executor/executor/internal/outbox"
	"github.com/agent-executor/executor/executor/internal/statefile"
)

// openState takes the state directory, if there is one, and opens what is in it: the
// state and the journal of calls.
func (e *Executor) openState() error {
	if dir := e.opts.StateDir; dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("state directory: %w", err)
		}
		held, err := dirlock.Lock(dir)
		if err != nil {
			return fmt.Errorf("state directory: %w", err)
		}
		e.held = held
	}
	var kept statefile.State
	var err error
	if e.state, kept, err = openKeeper(e.opts.StateDir, e.log); err != nil {
		return err
	}
	e.state.snapshot = e.keep
	e.executorID, e.connectionID, e.kept = kept.ExecutorID, kept.ConnectionID, kept.Sessions
	e.fences = newFences(kept.Fences)
	e.ended.init(kept.Ends)
	if e.box, err = outbox.Open(e.opts.StateDir); err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	e.judgeLosses(kept.Journal)
	e.forgetUnknown()
	e.forgetOthers()
	if owed := e.box.Owed(); owed > 0 {
		e.log.Info("results are owed from before the restart", zap.Int("results", owed))
	}
	return nil
}

// closeState lets the state directory go.
func (e *Executor) closeState() error {
	err := e.box.Close()
	if e.held != nil {
		if closed := e.held.Close(); err == nil {
			err = closed
		}
	}
	return err
}

// judgeLosses reports what of the journal could not be read, or is not there. When
// calls that were accepted may be among it, no session comes back: a call that the
// brain repeats could run a second time. What was being written when the machine ended
// was not answered yet, so it is not among it. journal is the id of the one that had
// the calls.
func (e *Executor) judgeLosses(journal string) {
	for _, l := range e.box.Losses() {
		e.log.Warn("journal is damaged", zap.String("file", l.File), zap.Int64("offset", l.Offset), zap.Int64("bytes", l.Bytes), zap.String("problem", l.What))
	}
	e.damaged = e.box.Wounded()
	if journal != "" && journal != e.box.ID() {
		e.log.Warn("journal is another one than before: it was removed or replaced", zap.String("state_dir", e.opts.StateDir))
		e.damaged = true
	}
	if e.damaged {
		e.noteError(fmt.Errorf("the journal in %s was damaged; see the log", e.opts.StateDir))
	}
}

// heal forgets about the damage when it is on the disk that no session is left whose
// calls may have been lost.
func (e *Executor) heal(change uint64) {
	if e.state.wait(e.life, change) == nil && e.state.degraded() == nil {
		e.box.Heal()
	}
}

// forgetUnknown drops results of sessions that nobody will ask for any more, and calls
// of those that are not remembered.
func (e *Executor) forgetUnknown() {
	recent := map[string]bool{}
	for _, s := range e.kept {
		recent[s.Assign.SessionID] = true
	}
	for _, id := range e.fences.order[max(0, len(e.fences.order)-keepEnded):] {
		recent[id] = true
	}
	for _, id := range e.box.Sessions() {
		_, known := e.fences.get(id)
		switch {
		case recent[id]:
		case known:
			e.box.Fade(id)
		default:
			e.box.Forget(id)
		}
	}
}

// recoverState tries to write what a full disk has kept in memory, and says once when
// that begins and when it ends (spec section 14.12).
func (e *Executor) recoverState() {
	err := e.box.Recover()
	if e.held != nil {
		gone := e.held.Check()
		e.mu.Lock()
		e.stateGone = gone
		e.mu.Unlock()
		if gone != nil {
			err = gone
		}
	}
	before := e.full.Swap(err != nil)
	switch {
	case err != nil && !before:
		e.log.Error("state directory cannot be written: calls and results would be lost with this process; make room or mend it", zap.Error(err))
	case err != nil:
		e.log.Warn("degraded: state directory cannot be written", zap.Error(err))
	case before:
		e.log.Info("state directory can be written again, and all is in it")
	}
}

// degraded is why not all can be kept over a restart just now; nil when it can. e.mu is
// held.
func (e *Executor) degraded() error {
	if err := e.box.Degraded(); err != nil {
		return err
	}
	if e.stateGone != nil {
		return e.stateGone
	}
	return e.state.degraded()
}
