package process

import (
	"context"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// Reasons of a process's state, beside that of the exit itself.
const (
	reasonTimeout      = "timeout"
	reasonTerminated   = "terminated"
	reasonInterrupted  = "interrupted"
	reasonSessionEnded = "session_ended"
	reasonLost         = "lost"
)

const (
	// onItsWay is what a program that has to wait for its readers may have printed besides: what is in
	// the pipe, which may be a wide one, and what was just read from it, and as much for its last words.
	onItsWay = 768 << 10
	// lastWords is how long after a request to end such a program still waits: one that dies of the
	// signal has nothing more to say, and one that does not may have to print before it can end.
	lastWords = 200 * time.Millisecond
	// settleTime is how long the state of a process waits for output that its readers hold up.
	settleTime = 300 * time.Millisecond
)

// child is one process. Its table makes it and ends it.
type child struct {
	id      string
	spec    specHash
	started chan struct{} // it was started, or err says why not
	err     error
	stdout  *stream.Ring
	stderr  *stream.Ring // at its end from the beginning when merged
	merge   bool

	// Set before started is closed.
	p         *spawn.Process
	input     *input     // nil: standard input is closed
	terminal  *terminal  // nil: pipes
	shown     spawn.Sink // takes what the terminal shows
	pid       int
	startedAt time.Time
	noted     bool   // there is a note of it
	working   func() // said to the session: it has ended

	// Of a process of before a restart of the executor, which has none of the above but pid and startedAt.
	former  bool
	cursors *protocol.ProcessCursors // the ends of its streams, where they are known

	ended chan struct{} // the state is final
	gone  chan struct{} // the first Terminate has returned

	mu      sync.Mutex
	asked   string    // why it is being ended, by the first who asked
	sigint  bool      // it was sent one
	until   time.Time // when it is killed; zero while nobody wants it to end
	later   *time.Timer
	laterAt time.Time
	state   string
	reason  string
	code    *int
	signal  string
	endedAt time.Time
	pushes  map[string]*push // by stream
}

func newChild(p protocol.ProcessStartParams, spec specHash, buffer int) *child {
	ch := &child{id: p.ProcessID, spec: spec, started: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{}),
		state: protocol.ProcessRunning, stdout: stream.NewRing(buffer), stderr: stream.NewRing(buffer),
		merge: p.Stderr == protocol.StderrMerge || p.IOMode == protocol.IOModePTY}
	if p.OnFull == protocol.OnFullBlock {
		ch.stdout.Block()
		ch.stderr.Block()
	}
	if ch.merge {
		ch.stderr.CloseWrite()
	}
	return ch
}

func (ch *child) awaitStart(ctx context.Context) error {
	select {
	case <-ch.started:
		return ch.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch follows the process to its end. It is a goroutine of the table.
func (ch *child) watch(t *table, timeout time.Duration) {
	var helpers sync.WaitGroup
	defer func() {
		helpers.Wait()
		ch.terminal.close()
	}()
	if ch.terminal != nil {
		helpers.Go(func() { ch.terminal.pump(ch.shown) })
	}
	if ch.input != nil {
		helpers.Go(ch.input.run)
	}
	var late <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ch.p.Exited():
	case <-ch.p.Done(): // given up
	case <-late:
		select {
		case <-ch.p.Exited(): // in the same moment: its own end is the better answer
		default:
			t.end(ch, reasonTimeout, t.options.TimeoutGrace)
		}
		select {
		case <-ch.p.Exited():
		case <-ch.p.Done():
		}
		if ch.why() == reasonTimeout {
			<-ch.gone // whoever is told of the end finds nothing of it any more
		}
	}
	if ch.input != nil {
		ch.input.stop()
	}
	ch.settle()
	ch.finish()
	t.note(ch)
	t.ended(ch)
	ch.working()
	close(ch.ended)
	t.tell(ch)
}

// settle waits until what was printed before the exit is in the rings, but not for slow readers.
func (ch *child) settle() {
	limit := time.NewTimer(settleTime)
	defer limit.Stop()
	done, settled := ch.p.Done(), ch.terminal.settled()
	if !ch.terminal.exited() || ch.stdout.Blocks() {
		select {
		case <-done:
		case <-limit.C:
			return
		}
		select {
		case <-settled:
		case <-limit.C:
		}
		return
	}
	<-done
	<-settled
}

// finish makes the state final.
func (ch *child) finish() {
	exit, ok := ch.p.Reaped()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.later != nil {
		ch.later.Stop()
	}
	ch.endedAt = time.Now()
	ch.reason = ch.asked
	switch {
	case !ok:
		ch.state, ch.reason = protocol.ProcessFailed, reasonLost
		return
	case exit.Signal != "":
		ch.state, ch.signal = protocol.ProcessKilled, exit.Signal
	default:
		ch.state, ch.code = protocol.ProcessExited, &exit.Code
	}
	if ch.asked == "" && ch.sigint && (exit.Signal == "SIGINT" || exit.Signal == "" && exit.Code == 128+2) {
		ch.reason = reasonInterrupted
	}
	if ch.asked == reasonTimeout {
		ch.state = protocol.ProcessKilled // whatever it made of the SIGTERM
	}
}

// interrupted notes that the process is sent a SIGINT, of which it may end.
func (ch *child) interrupted() {
	ch.mu.Lock()
	ch.sigint = true
	ch.mu.Unlock()
}

// ask notes why the process is to end.
func (ch *child) ask(reason string) {
	ch.mu.Lock()
	if ch.asked == "" {
		ch.asked = reason
	}
	ch.mu.Unlock()
}

// why is what it was asked to end for, empty for nothing.
func (ch *child) why() string {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.asked
}

// letGo lets the process end although nobody reads what it prints. What it had printed stays.
func (ch *child) letGo() {
	ch.stdout.Unblock(onItsWay)
	ch.stderr.Unblock(onItsWay)
}

// end ends the tree of the process: SIGTERM, the grace, SIGKILL. It does not wait. Asked again with an
// earlier end, it holds to that.
func (t *table) end(ch *child, reason string, grace time.Duration) {
	ch.mu.Lock()
	until := time.Now().Add(grace)
	first, sooner := ch.until.IsZero(), until.Before(ch.until)
	if first || sooner {
		ch.until = until
	}
	ch.mu.Unlock()
	ch.ask(reason)
	switch {
	case first:
		t.run(func() {
			timer := time.NewTimer(lastWords)
			defer timer.Stop()
			select {
			case <-ch.p.Exited():
			case <-timer.C:
			}
			ch.letGo()
		})
		ended := func() {
			defer close(ch.gone)
			if survivors := ch.p.Terminate(grace); len(survivors) > 0 {
				t.session.Logger().Warn("processes could not be ended", zap.String("process", ch.id), survivorField(survivors))
			}
		}
		if !t.run(ended) { // the session ends, and the process with it
			close(ch.gone)
		}
	case sooner:
		t.run(func() {
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case <-timer.C:
				ch.p.Kill()
			case <-ch.gone:
			}
		})
	}
}

// endLater ends the process after a time, unless it has ended by then.
func (t *table) endLater(ch *child, after time.Duration) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	at := time.Now().Add(after)
	if ch.state != protocol.ProcessRunning || ch.later != nil && !at.Before(ch.laterAt) {
		return
	}
	if ch.later != nil {
		ch.later.Stop()
	}
	ch.laterAt = at
	ch.later = time.AfterFunc(after, func() { t.end(ch, reasonTerminated, t.options.Grace) })
}

// release ends what is left when all processes of the session have ended.
func (ch *child) release() {
	<-ch.started
	if ch.err != nil {
		return
	}
	if ch.input != nil {
		ch.input.stop()
	}
	ch.terminal.close()
}

// discard lets go of what a process that is not kept any more has printed.
func (ch *child) discard() {
	ch.stdout.CloseWrite()
	ch.stderr.CloseWrite()
}

func (ch *child) endTime() time.Time {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.endedAt
}

func (ch *child) hasEnded() bool {
	select {
	case <-ch.ended:
		return true
	default:
		return false
	}
}

// sink writes what a pump reads into a ring.
func sink(r *stream.Ring) spawn.Sink {
	return func(p []byte) {
		if len(p) == 0 {
			r.CloseWrite()
			return
		}
		_, _ = r.Write(p)
	}
}

// ring is the log of a stream; cursor is what is asked for.
func (ch *child) ring(name string, cursor int64) *stream.Ring {
	if ch.former {
		return ch.formerRing(name, cursor)
	}
	if name == protocol.StreamStderr {
		return ch.stderr
	}
	return ch.stdout
}

func (ch *child) snapshot() protocol.ProcessState {
	s := protocol.ProcessState{
		ProcessID: ch.id,
		Accepted:  true,
		PID:       ch.pid,
		StartedAt: protocol.At(ch.startedAt),
		Stderr:    protocol.StderrSeparate,
	}
	if ch.merge {
		s.Stderr = protocol.StderrMerge
	}
	ch.mu.Lock()
	s.State, s.Reason, s.ExitCode, s.ExitSignal, s.EndedAt = ch.state, ch.reason, ch.code, ch.signal, protocol.At(ch.endedAt)
	ch.mu.Unlock()
	if ch.cursors != nil {
		s.Cursors = *ch.cursors
	} else {
		s.Cursors = protocol.ProcessCursors{Stdout: ch.stdout.End(), Stderr: ch.stderr.End()} // after the state: all of it is there
	}
	return s
}

// closed is a channel that is.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
