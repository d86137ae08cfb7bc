package executor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Why a connection was not made or was lost: the keys of Status.Reconnects, and there
// are no others.
const (
	reasonSuspended  = "suspended"  // the machine was
	reasonLease      = "lease"      // it ran out
	reasonGoingAway  = "going_away" // the brain restarts
	reasonClosed     = "closed"     // by the brain, with another code
	reasonHTTP       = "http"       // another answer than the upgrade
	reasonProxy      = "proxy"      // it does not connect to the brain
	reasonRegister   = "register"   // refused for now
	reasonCredential = "credential" // there was none, or it was rejected
	reasonName       = "name"       // the host's name was not resolved
	reasonRefused    = "refused"    // nobody listens
	reasonTLS        = "tls"
	reasonTimeout    = "timeout"
	reasonNetwork    = "network" // anything else
)

// ReconnectReasons are the keys that Status.Reconnects can have.
func ReconnectReasons() []string {
	return []string{reasonSuspended, reasonLease, reasonGoingAway, reasonClosed, reasonHTTP, reasonProxy, reasonRegister,
		reasonCredential, reasonName, reasonRefused, reasonTLS, reasonTimeout, reasonNetwork}
}

// errCredential wraps the error of a source of credentials.
type errCredential struct{ error }

func (e errCredential) Unwrap() error { return e.error }

// reasonOf is the reason of an attempt's error. The order counts: an error can be several.
func reasonOf(err error) string {
	var (
		closed     *rpc.CloseError
		dial       *rpc.DialError
		proxy      *rpc.ProxyError
		register   *errRegister
		credential errCredential
		name       *net.DNSError
		header     tls.RecordHeaderError
		alert      tls.AlertError
		verify     *tls.CertificateVerificationError
		authority  x509.UnknownAuthorityError
		timeout    net.Error
	)
	switch {
	case errors.Is(err, errSlept):
		return reasonSuspended
	case errors.Is(err, errLeaseLost), closedWith(err, protocol.CloseLeaseExpired):
		return reasonLease
	case errors.As(err, &closed) && !closed.Local && closed.Code == protocol.CloseUnauthorized:
		return reasonCredential
	case errors.As(err, &closed) && !closed.Local && (closed.Code == protocol.CloseGoingAway || closed.Code == closeServiceRestart):
		return reasonGoingAway
	case errors.As(err, &closed) && !closed.Local:
		return reasonClosed
	case errors.As(err, &dial) && (dial.Status == 401 || dial.Status == 403), errors.As(err, &credential):
		return reasonCredential
	case errors.As(err, &dial):
		return reasonHTTP
	case errors.As(err, &proxy):
		return reasonProxy
	case errors.As(err, &register):
		return reasonRegister
	case errors.As(err, &name):
		return reasonName
	case refusedOutright(err):
		return reasonRefused
	case errors.As(err, &header), errors.As(err, &alert), errors.As(err, &verify), errors.As(err, &authority):
		return reasonTLS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return reasonTimeout
	}
	return reasonNetwork
}

// closeServiceRestart is a WebSocket close code that servers use like 1001.
const closeServiceRestart = 1012

// attempted remembers how an attempt ended, of which so many have failed in a row.
func (e *Executor) attempted(err error, failed int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen.reconnects == nil {
		e.seen.reconnects = map[string]int64{}
	}
	e.seen.reconnects[reasonOf(err)]++
	e.seen.attempts = failed
}

// Steps of the connection's loop and what they may take at most, beyond what they are
// given themselves. They are generous: what exceeds them does not come back.
const (
	stepSlack       = 30 * time.Second
	credentialSlack = time.Minute
)

// expect says that the connection's loop makes its next step within d, or stepSlack more;
// negative: it is not watched for now.
func (e *Executor) expect(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expectLocked(d)
}

func (e *Executor) expectLocked(d time.Duration) {
	e.seen.due = time.Time{}
	if d >= 0 {
		e.seen.due = time.Now().Add(d + stepSlack)
	}
}

// connecting says that another attempt begins. One that waits at a socket to be dialled is
// not watched: it waits for as long as the brain likes.
func (e *Executor) connecting() {
	e.setState(StateConnecting, nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.next = time.Time{}
	if e.door != nil {
		e.expectLocked(-1)
		return
	}
	e.expectLocked(credentialSlack + e.opts.RequestTimeout)
}

// registered remembers a new connection. e.mu is held.
func (e *Executor) registered(c *connection) {
	now := time.Now()
	e.seen.connected, e.seen.contact = now, now
	e.expectLocked(c.nextContact())
}

// nextContact is within what time the brain answers next, when all is well.
func (c *connection) nextContact() time.Duration {
	return c.interval + c.interval/10 + c.e.opts.RequestTimeout
}

// contact says that the brain has answered, and does again within d.
func (e *Executor) contact(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.contact = time.Now()
	e.expectLocked(d)
}

// waitsUntil says when the next attempt is made.
func (e *Executor) waitsUntil(delay time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.next = time.Now().Add(delay)
	e.expectLocked(delay)
}

// overdue is for how long the next step should have been made. A connection over which
// something still goes to a slow brain makes steps. e.mu is held.
func (e *Executor) overdue() time.Duration {
	if e.seen.due.IsZero() {
		return 0
	}
	now := time.Now()
	if e.conn != nil {
		if moved, _ := e.conn.rpc.Sending(); moved != e.seen.moved {
			e.seen.moved = moved
			if least := now.Add(e.opts.RequestTimeout); e.seen.due.Before(least) {
				e.seen.due = least
			}
		}
	}
	return max(0, now.Sub(e.seen.due))
}
