// Package process is the capability that runs programs for the brain step by step: it starts them,
// reads what they print while they print it, writes to their input, interrupts and ends them.
//
//	ex.Register(process.New(process.Options{}))
//
// It answers the methods process.* (spec section 7). A process belongs to its session and ends with
// it; it does not notice that a connection is lost. What it prints is kept in a ring for each stream,
// so that a reader may come back to its cursor.
//
// The parts: start.go starts, child.go is one process from its start to its end, table.go the
// processes of one session, memory.go what is known of them after a restart of the executor, input.go
// the way to a program's standard input, tell.go that of process.status to the brain, push.go that of output;
// read.go, write.go and signal.go are the other methods.
package process

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// Options configures the capability. Zero fields are the defaults. Where the brain has set a limit too,
// the lower one holds.
type Options struct {
	BufferBytes  int // kept of each stream of a process; 1 MiB
	MaxProcesses int // running at once in one session; 32
	MaxReadBytes int // in one answer of process.read; 256 KiB
	MaxReads     int // that wait at once, over all sessions; 32
	MaxWrite     int // bytes in one process.write; 64 KiB

	Grace        time.Duration // between SIGTERM and SIGKILL when terminate names none; 5 s
	TimeoutGrace time.Duration // the same at the end of timeout_ms and of a session; 2 s
	// InputWait is how long a write waits for a program that does not read; 10 s.
	InputWait time.Duration

	// KeepFinished is how many ended processes of a session stay readable, the newest, each for
	// KeepFor; 64 and 10 minutes.
	KeepFinished int
	KeepFor      time.Duration

	// KeepEnv names variables to pass to programs although they look like secrets.
	KeepEnv []string
	// Secrets are credentials of the executor: a variable that contains one is never passed.
	Secrets []string
	// LoginEnv is the environment of the user's login shell; nil asks the shell, once.
	LoginEnv map[string]string
	// Children keeps hold of the programs and what they start; nil does not.
	Children *spawn.Keeper
}

func (o *Options) defaults() {
	for _, n := range []struct {
		field *int
		value int
	}{
		{&o.BufferBytes, protocol.DefaultProcessRing},
		{&o.MaxProcesses, protocol.DefaultMaxProcesses},
		{&o.MaxReadBytes, protocol.DefaultMaxProcessRead},
		{&o.MaxReads, protocol.DefaultMaxProcessReads},
		{&o.MaxWrite, protocol.DefaultMaxProcessWrite},
		{&o.KeepFinished, 64},
	} {
		if *n.field <= 0 {
			*n.field = n.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Grace, 5 * time.Second},
		{&o.TimeoutGrace, 2 * time.Second},
		{&o.InputWait, 10 * time.Second},
		{&o.KeepFor, 10 * time.Minute},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
}

// Processes is the capability. One value serves all sessions at once.
type Processes struct {
	options Options
	waiting atomic.Int64 // reads that wait
	pty     bool         // set by Install
}

// New makes the capability. It starts nothing.
func New(o Options) *Processes {
	o.defaults()
	return &Processes{options: o}
}

// Name implements capabilities.Capability.
func (c *Processes) Name() string { return protocol.CapabilityProcess }

// Install implements capabilities.Capability.
func (c *Processes) Install(r *capabilities.Registrar) error {
	c.pty = terminalsWork()
	r.Advertise(protocol.ProcessDetails{
		Enabled:      true,
		PTY:          c.pty,
		BufferBytes:  int64(c.options.BufferBytes),
		MaxProcesses: c.options.MaxProcesses,
		Push:         true,
	})
	r.OnSessionStart(c.startSession)
	r.OnSessionEnd(c.endSession)
	capabilities.Handle(r, protocol.ProcessStart, c.start)
	capabilities.Handle(r, protocol.ProcessRead, c.read)
	capabilities.Handle(r, protocol.ProcessWrite, c.write)
	capabilities.Handle(r, protocol.ProcessInterrupt, c.interrupt)
	capabilities.Handle(r, protocol.ProcessTerminate, c.terminate)
	capabilities.Handle(r, protocol.ProcessList, c.list)
	capabilities.Handle(r, protocol.ProcessResize, c.resize)
	capabilities.Handle(r, protocol.ProcessSubscribe, c.subscribe)
	capabilities.HandleNotification(r, protocol.ProcessAck, c.ack)
	return nil
}

// tableKey is where a session keeps its processes.
type tableKey struct{}

func (c *Processes) startSession(_ context.Context, s *capabilities.Session) error {
	c.login() // a slow profile delays the first session, not its first process
	t := newTable(s, c.options)
	t.restore()
	s.SetValue(tableKey{}, t)
	return nil
}

// endSession ends every process of the session and what they left running.
func (c *Processes) endSession(s *capabilities.Session) {
	t, ok := s.Value(tableKey{}).(*table)
	if !ok {
		return
	}
	if survivors := t.close(c.options.TimeoutGrace); len(survivors) > 0 {
		s.Logger().Warn("processes survived the session", survivorField(survivors))
	}
}

func tableOf(s *capabilities.Session) (*table, error) {
	t, ok := s.Value(tableKey{}).(*table)
	if !ok {
		return nil, errSessionEnds
	}
	return t, nil
}

// find is the process that a request is about, once it has started.
func find(ctx context.Context, s *capabilities.Session, id string) (*table, *child, error) {
	t, err := tableOf(s)
	if err != nil {
		return nil, nil, err
	}
	ch, err := t.get(ctx, id)
	return t, ch, err
}

func (c *Processes) list(_ context.Context, s *capabilities.Session, _ protocol.ProcessListParams) (protocol.ProcessListResult, error) {
	t, err := tableOf(s)
	if err != nil {
		return protocol.ProcessListResult{}, err
	}
	return protocol.ProcessListResult{Processes: t.list()}, nil
}

func (c *Processes) login() map[string]string {
	if c.options.LoginEnv != nil {
		return c.options.LoginEnv
	}
	return c.options.Children.Login()
}

// lower is the lower of a limit of our own and one of the brain, which is zero when there is none.
func lower(own, brains int) int {
	if brains > 0 {
		return min(own, brains)
	}
	return own
}

// givenUp says why a request is not waited for any more: its session ends, or its connection.
func givenUp(ctx context.Context, s *capabilities.Session) error {
	if s.Context().Err() != nil {
		return errSessionEnds
	}
	return ctx.Err()
}

var errSessionEnds = protocol.Errorf(protocol.CodeSessionNotActive, "the session is ending")

func survivorField(survivors []spawn.Survivor) zap.Field {
	pids := make([]int, len(survivors))
	for i, s := range survivors {
		pids[i] = s.PID
	}
	return zap.Ints("pids", pids)
}
