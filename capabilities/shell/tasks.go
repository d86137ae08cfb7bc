package shell

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

// tasks are the background tasks of one session. stop and wait end it; the session's group ends the
// processes between the two.
type tasks struct {
	session *capabilities.Session
	options Options
	work    sync.WaitGroup // goroutines of the tasks; added to under mu, before stop

	mu       sync.Mutex
	stopped  bool
	starting int
	all      []*task // by their start
}

func newTasks(s *capabilities.Session, o Options) *tasks { return &tasks{session: s, options: o} }

var errSessionEnds = protocol.Errorf(protocol.CodeSessionNotActive, "the session is ending")

// start starts a task.
func (ts *tasks) start(group *spawn.Group, c spawn.Command, timeout time.Duration, notify bool) (*task, error) {
	ts.mu.Lock()
	switch {
	case ts.stopped:
		ts.mu.Unlock()
		return nil, errSessionEnds
	case ts.starting+ts.running() >= ts.options.MaxTasks:
		ts.mu.Unlock()
		return nil, protocol.Errorf(protocol.CodeResourceUnavailable, "%d tasks run in this session, which is the limit; end one with shell_task_kill first", ts.options.MaxTasks).WithRetryable(false)
	}
	ts.starting++
	ts.mu.Unlock()

	t := &task{id: newID("task"), out: stream.NewRing(ts.options.TaskBytes), ended: make(chan struct{}), state: protocol.ProcessRunning, started: time.Now()}
	c.Stdout, c.Merge, c.Follow = t.sink, true, true
	p, err := group.Start(c)
	if err != nil {
		ts.mu.Lock()
		ts.starting--
		ts.mu.Unlock()
		return nil, startError(err)
	}
	t.p, t.pid, t.command, t.wake = p, p.PID(), p.Command(), notify
	ts.note(t)
	done := ts.session.Working()

	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.starting--
	if ts.stopped { // in this very moment; the group ends the process
		done()
		return nil, errSessionEnds
	}
	ts.all = append(ts.all, t)
	ts.work.Go(func() {
		var late <-chan time.Time
		if timeout > 0 {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			late = timer.C
		}
		t.watch(late, ts.options.Grace)
		ts.note(t)
		ts.prune()
		done()
		ts.wake(t)
	})
	return t, nil
}

// newID is what is never given twice, also not by another executor before or after this one.
func newID(prefix string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + "-" + hex.EncodeToString(b[:])
}

// running counts the tasks that run: as soon as one can be seen to have ended, another can
// be started. ts.mu is held.
func (ts *tasks) running() (n int) {
	for _, t := range ts.all {
		select {
		case <-t.ended:
		default:
			n++
		}
	}
	return n
}

// prune forgets the oldest of those that have ended and are too many.
func (ts *tasks) prune() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	over := len(ts.all) - ts.running() - ts.options.KeepTasks
	ts.all = slices.DeleteFunc(ts.all, func(t *task) bool {
		select {
		case <-t.ended:
			over--
			if over >= 0 {
				ts.session.ForgetNote(taskNotes + t.id)
			}
			return over >= 0
		default:
			return false
		}
	})
}

func (ts *tasks) list() []*task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.Clone(ts.all)
}

func (ts *tasks) get(id string) (*task, error) {
	for _, t := range ts.list() {
		if t.id == id {
			return t, nil
		}
	}
	if len(id) > 100 {
		id = id[:100] + "…"
	}
	return nil, protocol.Errorf(protocol.CodeNotFound, "task_id: there is no task %s in this session, or not any more; shell_task_list lists those there are", capabilities.QuoteName(id))
}

// kill ends the task and all it has started. It goes on when nobody waits any more.
func (ts *tasks) kill(t *task) (done <-chan []spawn.Survivor) {
	result := make(chan []spawn.Survivor, 1)
	t.ask(reasonKilled)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.stopped || t.p == nil {
		result <- nil
		return result
	}
	ts.work.Go(func() {
		survivors := t.p.Terminate(ts.options.TaskGrace)
		<-t.ended
		result <- survivors
	})
	return result
}

// stop says that all are to end, and that no other begins.
func (ts *tasks) stop() {
	ts.mu.Lock()
	ts.stopped = true
	all := slices.Clone(ts.all)
	ts.mu.Unlock()
	for _, t := range all {
		t.ask(reasonSessionEnded)
	}
}

// wait waits until nothing of them is left, when their group has ended them.
func (ts *tasks) wait() { ts.work.Wait() }
