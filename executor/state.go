package executor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/executor/internal/statefile"
)

const (
	// recordWait bounds how long an answer waits for a disk that does not come back.
	recordWait = 10 * time.Second
	// recordLater is how soon a change is written that nobody waits for. Those that
	// come together cost one write.
	recordLater = 500 * time.Millisecond
	// recordRetry is how soon a state is written again that the disk did not take.
	recordRetry = 30 * time.Second
)

// keeper writes the executor's state to its directory, on one goroutine: all changes
// made meanwhile go into one write. A disk that takes nothing stops nobody: the
// sessions go on, and would be lost with the process until a write works again.
// Without a directory it does nothing. Its methods are used concurrently.
type keeper struct {
	log      *zap.Logger
	file     *statefile.File
	snapshot func() statefile.State // after run has begun, by its goroutine only
	wake     chan struct{}
	quit     chan struct{}
	ended    chan struct{}

	mu      sync.Mutex
	changed uint64        // how many changes there were
	tried   uint64        // how many of them a write was tried with
	attempt chan struct{} // closed and replaced when tried grows
	later   *time.Timer   // for changes nobody waits for
	problem error         // of the last write; nil when it worked
	closed  bool          // nothing is written any more
}

// openKeeper reads what is kept in dir, if anything is.
func openKeeper(dir string, log *zap.Logger) (*keeper, statefile.State, error) {
	k := &keeper{log: log, wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}), attempt: make(chan struct{})}
	if dir == "" {
		return k, statefile.State{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, statefile.State{}, fmt.Errorf("state directory: %w", err)
	}
	file, state, damage, err := statefile.Open(dir)
	if err != nil {
		return nil, statefile.State{}, err
	}
	for _, d := range damage {
		log.Warn("state file is damaged", zap.String("file", d.File), zap.String("kept_as", d.Aside), zap.Error(d.Problem))
	}
	if len(damage) > 0 && state.ExecutorID == "" {
		log.Warn("no whole state file is left, registering as new")
	}
	k.file = file
	return k, state, nil
}

// change says that something that is kept has changed, and has it written soon, or
// when nobody waits for it a little later. It returns what wait takes. It may be
// called under any lock but the keeper's.
func (k *keeper) change(awaited bool) uint64 {
	if k.file == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed++
	switch {
	case k.closed:
	case awaited:
		k.kick()
	case k.later == nil:
		k.later = time.AfterFunc(recordLater, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.later = nil
			k.kick()
		})
	}
	return k.changed
}

func (k *keeper) kick() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// wait returns when the change is on the disk, or when the disk did not take it. The
// error is the context's.
func (k *keeper) wait(ctx context.Context, change uint64) error {
	if k.file == nil {
		return nil
	}
	var limit <-chan time.Time
	for {
		k.mu.Lock()
		tried, attempt := k.closed || k.tried >= change, k.attempt
		k.mu.Unlock()
		if tried {
			return nil
		}
		if limit == nil {
			timer := time.NewTimer(recordWait)
			defer timer.Stop()
			limit = timer.C
		}
		select {
		case <-attempt:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit:
			k.judge(fmt.Errorf("the disk has not taken the state within %v", recordWait))
			return nil
		}
	}
}

// run writes changes until stop.
func (k *keeper) run() {
	defer close(k.ended)
	if k.file == nil {
		return
	}
	for {
		var again <-chan time.Time
		if k.degraded() != nil {
			again = time.After(recordRetry)
		}
		select {
		case <-k.wake:
		case <-again:
		case <-k.quit:
			k.save()
			k.close()
			return
		}
		k.save()
	}
}

// stop writes what was not written yet and waits for the end of run.
func (k *keeper) stop() {
	close(k.quit)
	<-k.ended
}

func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.later != nil {
		k.later.Stop()
	}
	close(k.attempt)
	k.attempt = make(chan struct{})
}

// save writes once, unless there is nothing new.
func (k *keeper) save() {
	k.mu.Lock()
	change := k.changed
	nothing := change == k.tried && k.problem == nil
	k.mu.Unlock()
	if nothing {
		return
	}
	err := k.file.Write(k.snapshot())
	k.mu.Lock()
	k.tried = change
	close(k.attempt)
	k.attempt = make(chan struct{})
	k.mu.Unlock()
	if err == nil {
		err = k.file.Mirror()
	}
	k.judge(err)
}

// judge tells when writing begins to fail, and when it works again.
func (k *keeper) judge(err error) {
	k.mu.Lock()
	before := k.problem
	k.problem = err
	k.mu.Unlock()
	switch {
	case err != nil && before == nil:
		k.log.Error("state is not kept: sessions go on, but would be lost with this process; make room or mend the state directory", zap.Error(err))
	case err == nil && before != nil:
		k.log.Info("state is kept again")
	}
}

// degraded says why nothing can be kept just now.
func (k *keeper) degraded() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem
}

// keep is what is kept now.
func (e *Executor) keep() statefile.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := statefile.State{ExecutorID: e.executorID, ConnectionID: e.connectionID, Fences: e.fences.list(), Ends: e.ended.list(), Journal: e.box.ID()}
	for _, id := range e.activeSessions() {
		s.Sessions = append(s.Sessions, e.sessions[id].keep())
	}
	return s
}

func (s *session) keep() statefile.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return statefile.Session{Assign: s.assign, Dir: s.caps.Workspace().Dir(), Ready: s.acked,
		Ending: s.phase == phaseEnding, EndReason: s.endReason}
}
