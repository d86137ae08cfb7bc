package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

const (
	minDialDelay = 200 * time.Millisecond
	maxDialDelay = 10 * time.Second
	// dialHealthy is how long a connection must have lived for its loss to start the
	// delays anew.
	dialHealthy = 10 * time.Second
)

// checkDials refuses what could only fail later.
func checkDials(urls []string) error {
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "unix" || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return cli.Usagef("--dial %q: want unix:///absolute/path, where an executor was started with --brain unix+listen:///absolute/path", cli.Line(raw))
		}
		if len(u.Path) > rpc.MaxSocketPath {
			return cli.Usagef("--dial: the path %s is longer than the %d bytes a socket's may have; use a shorter one", cli.Line(u.Path), rpc.MaxSocketPath)
		}
	}
	return nil
}

// dial dials an executor that listens, again and again, until ctx is done. The token is
// the one that executors have to send who dial.
func (s *server) dial(ctx context.Context, url, token string) {
	limit := minDialDelay
	log := s.log.With(zap.String("dial", url))
	said := ""
	for {
		began := time.Now()
		err := s.brain.Dial(ctx, url, brain.Principal{Name: "token"}, rpc.DialOptions{Token: token})
		if ctx.Err() != nil || errors.Is(err, brain.ErrClosed) {
			return
		}
		if time.Since(began) >= dialHealthy {
			limit = minDialDelay
		}
		delay := max(rand.N(limit+1), dialFloor(err))
		limit = min(2*limit, maxDialDelay)
		text := "the connection ended"
		if err != nil {
			text = err.Error()
		}
		if text != said { // the same again and again would only fill the log
			log.Info("not connected to an executor", zap.String("why", text), zap.Duration("retry_in", delay.Round(time.Millisecond)))
		}
		said = text
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// dialFloor is the shortest delay that an executor asked for, within reason.
func dialFloor(err error) time.Duration {
	var dial *rpc.DialError
	var closed *rpc.CloseError
	var seconds int
	switch {
	case errors.As(err, &dial):
		return min(dial.RetryAfter, maxDialDelay)
	case errors.As(err, &closed):
		if _, scan := fmt.Sscanf(closed.Reason, "retry-after=%d", &seconds); scan == nil && seconds > 0 {
			return min(time.Duration(min(seconds, 3600))*time.Second, maxDialDelay)
		}
	}
	return 0
}
