package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// brain exec talks to the brain in one HTTP request whose body and answer are both lines of JSON, sent
// while they come.

// execRequest is the first line.
type execRequest struct {
	Executor string            `json:"executor,omitempty"` // id or name
	Session  string            `json:"session,omitempty"`
	Argv     []string          `json:"argv"`
	Cwd      string            `json:"cwd,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	PTY      bool              `json:"pty,omitempty"`
	Cols     int               `json:"cols,omitempty"`
	Rows     int               `json:"rows,omitempty"`
	WaitMS   int64             `json:"wait_ms"` // for an executor to be connected
}

// execInput is a line behind it.
type execInput struct {
	Data      []byte `json:"data,omitempty"` // of standard input
	Close     bool   `json:"close,omitempty"`
	Interrupt bool   `json:"interrupt,omitempty"`
	Terminate bool   `json:"terminate,omitempty"`
	Cols      int    `json:"cols,omitempty"` // a new size of the PTY
	Rows      int    `json:"rows,omitempty"`
}

// execOutput is a line of the answer. The last one has State or Error.
type execOutput struct {
	Taken  bool                   `json:"taken,omitempty"` // a line with Data; the next one may come
	Stream string                 `json:"stream,omitempty"`
	Data   []byte                 `json:"data,omitempty"`
	State  *protocol.ProcessState `json:"state,omitempty"`
	Error  string                 `json:"error,omitempty"`
}

// afterExit is how long, after the end of the process, output is waited for that somebody may still print
// who holds it open; each byte of it begins that time anew.
const afterExit = 500 * time.Millisecond

// exec runs one process for one request. It ends with the request, and the process with it.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	in := json.NewDecoder(r.Body)
	var q execRequest
	if err := in.Decode(&q); err != nil {
		cli.Answer(w, http.StatusBadRequest, cli.AnswerError{Error: "bad request: " + err.Error()})
		return
	}
	if err := control.EnableFullDuplex(); err != nil {
		cli.Answer(w, http.StatusInternalServerError, cli.AnswerError{Error: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()

	out := &execAnswer{to: json.NewEncoder(w), flush: control.Flush}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	state, err := s.runProcess(ctx, q, func(p *brain.Process) (stop func()) {
		var reading sync.WaitGroup
		reading.Go(func() {
			// Who asked is gone: so is the process.
			if takeInput(ctx, in, p, out) != nil {
				cancel()
			}
		})
		return func() {
			_ = control.SetReadDeadline(time.Unix(1, 0)) // ends the reading of the request
			cancel()
			reading.Wait()
		}
	}, out)
	if err != nil {
		_ = out.send(execOutput{Error: notRun(err)})
		return
	}
	_ = out.send(execOutput{State: &state})
}

// notRun is an error in words: what the executor or its user did not allow is no fault of anybody's.
func notRun(err error) string {
	var e *protocol.Error
	if errors.As(err, &e) && e.Code == protocol.CodeForbidden {
		text := "the program was not run"
		if e.Data.Reason != "" && e.Data.Reason != e.Code.String() {
			text += " (" + e.Data.Reason + ")"
		}
		return text + ": " + strings.TrimSuffix(e.Message, "; it was not run")
	}
	return err.Error()
}

// runProcess starts the process in a session, copies what it prints and waits for its end. follow begins
// what carries the input; its stop is called before the session ends.
func (s *server) runProcess(ctx context.Context, q execRequest, follow func(*brain.Process) (stop func()), out *execAnswer) (protocol.ProcessState, error) {
	var none protocol.ProcessState
	session, own, err := s.session(ctx, callRequest{Executor: q.Executor, Session: q.Session, WaitMS: q.WaitMS})
	if err != nil {
		return none, err
	}
	end := func() {}
	if own {
		end = func() {
			limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			_ = session.Stop(limit, "the process has ended")
		}
	}
	defer func() { end() }()
	p := protocol.ProcessStartParams{Argv: q.Argv, Cwd: q.Cwd, Env: q.Env, Stdin: protocol.StdinOpen, OnFull: protocol.OnFullBlock}
	if q.PTY {
		p.IOMode, p.Cols, p.Rows = protocol.IOModePTY, q.Cols, q.Rows
	}
	x, err := session.Process(ctx, p)
	if err != nil {
		return none, err
	}
	if !own { // the session stays, the process does not
		end = func() {
			if x.State().State == protocol.ProcessRunning {
				limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
				defer cancel()
				_, _ = x.Terminate(limit, nil)
			}
		}
	}
	stop := follow(x)
	defer stop()
	failed := out.copyAll(x)
	state, err := x.Wait(ctx)
	if err == nil {
		err = failed
	}
	return state, err
}

// takeInput does what the lines of the request say, until there are no more. A program that does not
// read its input holds up no signals.
func takeInput(ctx context.Context, in *json.Decoder, p *brain.Process, out *execAnswer) error {
	var writing sync.WaitGroup
	writes := make(chan execInput, 1)
	defer writing.Wait()
	defer close(writes)
	writing.Go(func() {
		for line := range writes {
			if line.Close {
				_ = p.Close()
				continue
			}
			_, _ = p.Write(line.Data) // it has ended, or does not read any more
			_ = out.send(execOutput{Taken: true})
		}
	})
	for {
		var line execInput
		if err := in.Decode(&line); err != nil {
			return err
		}
		var err error
		switch {
		case line.Interrupt:
			err = p.Interrupt(ctx)
		case line.Terminate:
			_, err = p.Terminate(ctx, nil)
		case line.Cols > 0 && line.Rows > 0:
			err = p.Resize(ctx, line.Cols, line.Rows)
		default:
			select {
			case writes <- line:
			default:
				return errors.New("input came before the input before it was taken")
			}
		}
		var refused *protocol.Error
		if err != nil && !errors.As(err, &refused) { // it has ended
			return err
		}
	}
}

// execAnswer writes the lines of the answer. Its methods may be called concurrently.
type execAnswer struct {
	mu    sync.Mutex
	to    *json.Encoder
	flush func() error
}

func (a *execAnswer) send(line execOutput) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.to.Encode(line); err != nil {
		return err
	}
	return a.flush()
}

// copyAll copies both streams to their ends.
func (a *execAnswer) copyAll(p *brain.Process) error {
	p.Linger(afterExit)
	errs := make(chan error, 2)
	go func() { errs <- a.copy(protocol.StreamStderr, p.Stderr()) }()
	errs <- a.copy(protocol.StreamStdout, p.Stdout())
	return errors.Join(<-errs, <-errs)
}

func (a *execAnswer) copy(name string, from io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := a.send(execOutput{Stream: name, Data: buf[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}
