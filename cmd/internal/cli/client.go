package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor"
)

// Client asks the running program that uses a state directory, over its control socket.
// It may be used concurrently.
type Client struct {
	Program string // "brain", for errors
	Start   string // how one is started, for errors
	Dir     string // the state directory
	// Patience is how long the beginning of an answer is waited for (0: as long as it
	// takes).
	Patience time.Duration
}

// giveUpHeader says until when the sender of a request waits for the beginning of the
// answer: milliseconds of the system's clock, which is that of both.
const giveUpHeader = "Give-Up-At"

// GaveUp reports whether the client of a request no longer waits for the answer: what it
// asks for is not to be done then, since it was told that it is not. conn is the
// connection that the request came with; nil when it is not known.
func GaveUp(r *http.Request, conn net.Conn) bool {
	if r.Context().Err() != nil || conn != nil && PeerLeft(conn) {
		return true
	}
	at, err := strconv.ParseInt(r.Header.Get(giveUpHeader), 10, 64)
	return err == nil && time.Now().UnixMilli() >= at
}

// AnswerError is the answer to a request that failed: an object with one member.
type AnswerError struct {
	Error string `json:"error"`
}

// Answer writes v as the answer to a request.
func Answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// NotRunningError says that no program runs with a state directory.
type NotRunningError struct{ text string }

func (e *NotRunningError) Error() string { return e.text }

// Do sends one request and decodes the answer. Cancelling ctx cancels what the program
// does for it.
func (c *Client) Do(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
	}
	resp, err := c.Stream(ctx, method, path, content)
	if err != nil {
		return err
	}
	defer resp.Close()
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(resp).Decode(answer); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the %s's answer: %w", c.Program, err)
	}
	return nil
}

// Stream sends one request and returns the body of a good answer, which the caller
// closes.
func (c *Client) Stream(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.Program+path, body)
	if err != nil {
		return nil, err
	}
	if c.Patience > 0 {
		r.Header.Set(giveUpHeader, strconv.FormatInt(time.Now().Add(c.Patience).UnixMilli(), 10))
	}
	client := http.Client{Transport: &http.Transport{DialContext: c.dial, DisableKeepAlives: true, ResponseHeaderTimeout: c.Patience}}
	resp, err := client.Do(r)
	if err != nil || ctx.Err() != nil {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, c.explain(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var e AnswerError
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&e) != nil || e.Error == "" {
		return nil, fmt.Errorf("the %s answered %s", c.Program, resp.Status)
	}
	return nil, errors.New(e.Error)
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	short, done, err := shortPath(ControlSocket(c.Dir))
	if err != nil {
		return nil, err
	}
	defer done()
	if c.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Patience)
		defer cancel()
	}
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", short)
		if !errors.Is(err, syscall.EAGAIN) { // that many others wait to be accepted
			return conn, err
		}
		select {
		case <-time.After(dialAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// dialAgain is how soon a dial is tried again that had no room to wait in.
const dialAgain = 10 * time.Millisecond

// explain says what it means that a request was not answered, and what to do.
func (c *Client) explain(ctx context.Context, err error) error {
	dir := capabilities.QuoteName(c.Dir)
	pid, held, _ := executor.DirHolder(c.Dir)
	who := c.Program
	if held && pid != 0 {
		who = fmt.Sprintf("%s with pid %d", c.Program, pid)
	}
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrPermission):
		owner := "another user's"
		if info, err := os.Stat(c.Dir); err == nil {
			if name := foreignOwner(info); name != "" {
				owner = name + "'s"
			}
		}
		return fmt.Errorf("the %s that uses the state directory %s is %s; ask as that user, or as root", who, dir, owner)
	case held && (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)):
		return fmt.Errorf("the %s uses the state directory %s and has no control socket just now; it starts or ends, or its log says why", who, dir)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return &NotRunningError{fmt.Sprintf("no %s runs with the state directory %s; start one with %s, or name its --state-dir", c.Program, dir, c.Start)}
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("the %s does not answer within %v; it may be stuck, look at its log", who, c.Patience)
	}
	return fmt.Errorf("ask the %s: %w", c.Program, err)
}
