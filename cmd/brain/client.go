package main

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
	"syscall"

	"github.com/agent-executor/executor/capabilities"
)

// client asks the brain that uses a state directory.
type client struct {
	dir  string
	http *http.Client
}

func newClient(dir string) *client {
	return &client{dir, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socketPath(dir))
		},
		DisableKeepAlives: true,
	}}}
}

// do sends one request and decodes the answer. Cancelling ctx cancels what the
// brain does for it.
func (c *client) do(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://brain"+path, content)
	if err != nil {
		return err
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Close()
	if err := json.NewDecoder(resp).Decode(answer); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the brain's answer: %w", err)
	}
	return nil
}

// send sends a request and returns the body of a good answer, which the caller closes.
func (c *client) send(ctx context.Context, r *http.Request) (io.ReadCloser, error) {
	resp, err := c.http.Do(r)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, ctx.Err()
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no brain runs with the state directory %s; start one with brain serve, or name its --state-dir", capabilities.QuoteName(c.dir))
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("the brain's control socket in %s is another user's", capabilities.QuoteName(c.dir))
	case err != nil:
		return nil, fmt.Errorf("ask the brain: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		var e answerError
		if json.NewDecoder(resp.Body).Decode(&e) != nil || e.Error == "" {
			return nil, fmt.Errorf("the brain answered %s", resp.Status)
		}
		return nil, errors.New(e.Error)
	}
	return resp.Body, nil
}
