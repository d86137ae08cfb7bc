package brain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/agent-executor/executor/protocol"
)

const (
	// pollMS is how long one request waits for output.
	pollMS = 20_000
	// minStateEvery and maxStateEvery are the times after which it is asked whether a process has ended,
	// should the process.status have been lost.
	minStateEvery = time.Second
	maxStateEvery = 5 * time.Second
)

// Process is a process on an executor (spec section 7). It goes on over reconnects: what it prints is
// read by cursors, what it is told is written by offsets. Read is its standard output, Write its
// standard input, Close the end of that input.
//
//	p, err := s.Process(ctx, protocol.ProcessStartParams{Argv: []string{"make", "test"}})
//	go io.Copy(os.Stderr, p.Stderr())
//	io.Copy(os.Stdout, p)
//	state, err := p.Wait(ctx)
//
// Its methods may be called concurrently; reads of one stream and writes come one after another. The
// process ends by itself, through Terminate, or with its session. Nothing has to be done to end a
// Process.
type Process struct {
	s      *Session
	ctx    context.Context // of its readers and writers, as io knows none
	params protocol.ProcessStartParams
	stdout *ProcessStream
	stderr *ProcessStream
	ended  chan struct{} // state is final
	linger atomic.Int64  // milliseconds; 0: no end to it

	input   chan struct{} // holds a token while nobody writes
	written int64         // guarded by input
	closed  bool          // likewise

	mu    sync.Mutex
	state protocol.ProcessState
	last  bool // ended is closed
}

// Process starts a process and returns when the executor has started it. Session id, and process id when
// it is empty, are filled in; the same id with the same params is the same process. Reading and writing
// end with ctx, which does not end the process. A refusal is a *protocol.Error.
//
// Without OnFull a reader that is too slow loses the oldest bytes, and is told with a *GapError; with
// protocol.OnFullBlock the program waits for it instead.
func (s *Session) Process(ctx context.Context, p protocol.ProcessStartParams) (*Process, error) {
	p.SessionID = s.ID()
	if p.ProcessID == "" {
		p.ProcessID = uuid.NewString()
	}
	x := &Process{s: s, ctx: ctx, params: p, ended: make(chan struct{}), input: make(chan struct{}, 1)}
	x.input <- struct{}{}
	x.stdout, x.stderr = newStream(x, protocol.StreamStdout), newStream(x, protocol.StreamStderr)
	// Before the start: the process may have ended before its answer is read.
	if !s.watch(x) {
		return nil, s.Err()
	}
	state, err := askIn(ctx, s, protocol.ProcessStart, p)
	if err != nil {
		s.unwatch(x)
		return nil, err
	}
	if !s.active.Load() {
		s.active.Store(true)
	}
	x.settle(state)
	return x, nil
}

// askIn repeats a request of a session until it is answered or the session has ended.
func askIn[P, R any](ctx context.Context, s *Session, m protocol.Method[P, R], params P) (R, error) {
	r, err := persist(ctx, s.x, m, params, &attempt{settled: s.ended, early: s})
	if errors.Is(err, errSettled) {
		err = s.Err()
	}
	return r, err
}

// ID is the process_id.
func (p *Process) ID() string { return p.params.ProcessID }

// Session is the session it belongs to.
func (p *Process) Session() *Session { return p.s }

// State is what is known of it now, without asking.
func (p *Process) State() protocol.ProcessState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Ended is closed when it is known that the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stdout is the standard output, which Read reads too.
func (p *Process) Stdout() *ProcessStream { return p.stdout }

// Stderr is the standard error. It is empty when it is merged into standard output, as on a PTY.
func (p *Process) Stderr() *ProcessStream { return p.stderr }

// Linger bounds how long output is waited for after the end of the process, which others may hold open
// and print to: when nothing has come for so long, reading ends with io.EOF. All that the process itself
// has printed is read before, however slowly. Without it, or with 0, reading ends when nobody holds the
// output open any more.
func (p *Process) Linger(d time.Duration) { p.linger.Store(d.Milliseconds()) }

// Read reads the standard output, see [ProcessStream.Read].
func (p *Process) Read(b []byte) (int, error) { return p.stdout.Read(b) }

// Write writes to the standard input and returns when the executor has taken all of b: what the program
// has not read yet is bounded, so a program that does not read holds it up. The process must have been
// started with protocol.StdinOpen; after its end the error is a conflict. A Write that failed may have
// written a part.
func (p *Process) Write(b []byte) (n int, err error) {
	for n < len(b) {
		part := b[n:min(len(b), n+p.s.x.b.opts.Limits.MaxProcessWriteBytes)]
		if err := p.write(part, false); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Close ends the standard input: the program reads to its end. On a PTY it gets what ends the input of a
// terminal. It may be called twice.
func (p *Process) Close() error { return p.write(nil, true) }

func (p *Process) write(data []byte, end bool) error {
	select {
	case <-p.input:
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
	defer func() { p.input <- struct{}{} }()
	if p.closed {
		if end {
			return nil
		}
		return io.ErrClosedPipe
	}
	offset := p.written
	_, err := askIn(p.ctx, p.s, protocol.ProcessWrite, protocol.ProcessWriteParams{
		SessionID: p.params.SessionID, ProcessID: p.params.ProcessID, Data: data, CloseStdin: end, Offset: &offset})
	if err != nil {
		return err
	}
	p.written += int64(len(data))
	p.closed = end
	return nil
}

// Wait waits for the end of the process, which is its own: somebody else may still hold its output open.
// An error says that the end is not known: the context's, or that of the session.
func (p *Process) Wait(ctx context.Context) (protocol.ProcessState, error) {
	// The process.status comes at once, unless it is lost with a connection.
	for pause := minStateEvery; ; pause = min(2*pause, maxStateEvery) {
		switch err := p.s.x.pause(ctx, pause, p.ended); {
		case errors.Is(err, errSettled):
			return p.State(), nil
		case err != nil:
			return p.State(), err
		}
		list, err := askIn(ctx, p.s, protocol.ProcessList, protocol.ProcessListParams{SessionID: p.params.SessionID})
		i := slices.IndexFunc(list.Processes, func(s protocol.ProcessState) bool { return s.ProcessID == p.params.ProcessID })
		switch {
		case p.hasEnded():
			return p.State(), nil
		case err != nil:
			return p.State(), err
		case i < 0:
			return p.State(), protocol.Errorf(protocol.CodeNotFound, "the executor does not have process %s any more", p.params.ProcessID)
		}
		p.settle(list.Processes[i])
	}
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Interrupt sends SIGINT to the process and its descendants, as Ctrl-C would.
func (p *Process) Interrupt(ctx context.Context) error {
	_, err := p.signal(ctx, protocol.ProcessInterrupt, nil)
	return err
}

// Terminate ends the process and its descendants, with SIGKILL after a grace in milliseconds (nil: the
// executor's default), and returns when they are gone.
func (p *Process) Terminate(ctx context.Context, graceMS *int64) (protocol.ProcessState, error) {
	return p.signal(ctx, protocol.ProcessTerminate, graceMS)
}

func (p *Process) signal(ctx context.Context, m protocol.Method[protocol.ProcessSignalParams, protocol.ProcessState], graceMS *int64) (protocol.ProcessState, error) {
	state, err := askIn(ctx, p.s, m, protocol.ProcessSignalParams{SessionID: p.params.SessionID, ProcessID: p.params.ProcessID, GraceMS: graceMS})
	if err == nil {
		p.settle(state)
	}
	return state, err
}

// Resize changes the size of its PTY.
func (p *Process) Resize(ctx context.Context, cols, rows int) error {
	_, err := askIn(ctx, p.s, protocol.ProcessResize, protocol.ProcessResizeParams{
		SessionID: p.params.SessionID, ProcessID: p.params.ProcessID, Cols: cols, Rows: rows})
	return err
}

// settle takes in a state; the first final one holds.
func (p *Process) settle(s protocol.ProcessState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last {
		if p.state.PID == 0 { // the process.status was faster than the answer to the start
			p.state.PID, p.state.StartedAt, p.state.Stderr, p.state.Cursors = s.PID, s.StartedAt, s.Stderr, s.Cursors
		}
		return
	}
	if s.PID == 0 { // told by a status or an answer to a read
		s.PID, s.StartedAt, s.Stderr, s.Cursors = p.state.PID, p.state.StartedAt, p.state.Stderr, p.state.Cursors
	}
	p.state = s
	if s.State != protocol.ProcessRunning {
		p.last = true
		close(p.ended)
		p.s.unwatch(p)
	}
}

// GapError says that bytes of a stream are lost, from a cursor on to before another: they were
// overwritten before they were read. The next Read goes on behind them.
type GapError struct {
	Stream   string
	From, To int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%d bytes of %s were dropped before they were read", e.To-e.From, e.Stream)
}

// ProcessStream is an output of a process.
type ProcessStream struct {
	p    *Process
	name string

	reads  chan struct{} // holds a token while nobody reads
	cursor int64         // of what is asked for next; guarded by reads, as are those below
	rest   []byte
	eof    bool
}

func newStream(p *Process, name string) *ProcessStream {
	s := &ProcessStream{p: p, name: name, reads: make(chan struct{}, 1)}
	s.reads <- struct{}{}
	return s
}

// Read waits for output. io.EOF comes when nobody holds the output open any more, a *GapError, once,
// where bytes were lost, and the session's error when that has ended before.
func (s *ProcessStream) Read(b []byte) (int, error) {
	select {
	case <-s.reads:
	case <-s.p.ctx.Done():
		return 0, s.p.ctx.Err()
	}
	defer func() { s.reads <- struct{}{} }()
	if len(b) == 0 {
		return 0, nil
	}
	for len(s.rest) == 0 {
		if s.eof {
			return 0, io.EOF
		}
		wait, last := int64(pollMS), false
		if linger := s.p.linger.Load(); linger > 0 && s.p.hasEnded() {
			wait, last = min(linger, pollMS), linger <= pollMS
		}
		r, err := askIn(s.p.ctx, s.p.s, protocol.ProcessRead, protocol.ProcessReadParams{
			SessionID: s.p.params.SessionID, ProcessID: s.p.params.ProcessID, Stream: s.name, Cursor: s.cursor, WaitMS: wait,
			MaxBytes: s.p.s.x.b.opts.Limits.MaxProcessReadBytes})
		if err != nil {
			return 0, err
		}
		if r.State != protocol.ProcessRunning {
			s.p.settle(protocol.ProcessState{ProcessID: r.ProcessID, Accepted: true, State: r.State,
				ExitCode: r.ExitCode, ExitSignal: r.ExitSignal, Reason: r.Reason, EndedAt: r.EndedAt})
		}
		from := s.cursor
		s.rest, s.cursor, s.eof = r.Data, r.NextCursor, r.EOF
		s.eof = s.eof || last && len(r.Data) == 0
		if r.FromCursor > from {
			return 0, &GapError{s.name, from, r.FromCursor}
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// watch has the process told of its process.status; false when the session has ended.
func (s *Session) watch(p *Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	if s.processes == nil {
		s.processes = map[*Process]struct{}{}
	}
	s.processes[p] = struct{}{}
	return true
}

func (s *Session) unwatch(p *Process) {
	s.mu.Lock()
	delete(s.processes, p)
	s.mu.Unlock()
}

// Running counts the processes that [Session.Process] has started and whose end is not known.
func (s *Session) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]bool{}
	for p := range s.processes {
		ids[p.params.ProcessID] = true
	}
	return len(ids)
}

// processStatus takes in a process.status.
func (s *Session) processStatus(p protocol.ProcessStatusParams) {
	var told []*Process
	s.mu.Lock()
	for x := range s.processes {
		if x.params.ProcessID == p.ProcessID {
			told = append(told, x)
		}
	}
	s.mu.Unlock()
	for _, x := range told {
		x.settle(protocol.ProcessState{ProcessID: p.ProcessID, Accepted: true, State: p.State,
			ExitCode: p.ExitCode, ExitSignal: p.ExitSignal, Reason: p.Reason, EndedAt: p.EndedAt})
	}
}
