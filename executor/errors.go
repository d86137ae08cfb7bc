package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Why Run ends by itself. The error of Run wraps one of them and says what to do.
var (
	ErrCredentialRejected  = errors.New("credential rejected")
	ErrRegistrationRefused = errors.New("registration refused")
	ErrUnsupportedProtocol = errors.New("unsupported protocol")
	ErrReplaced            = errors.New("replaced by another executor with the same identity")
	ErrAttemptsExhausted   = errors.New("attempts to connect exhausted")
)

// errRegister wraps the brain's answer to executor.register, which is judged
// otherwise than the same error anywhere else.
type errRegister struct{ cause *protocol.Error }

func (e *errRegister) Error() string { return "register: " + e.cause.Error() }
func (e *errRegister) Unwrap() error { return e.cause }

// errUnsupported is ErrUnsupportedProtocol with its cause, whose text says the same in
// its own words, and a brain's once more.
type errUnsupported struct{ cause error }

func (e *errUnsupported) Error() string {
	again := strings.NewReplacer(protocol.CodeUnsupportedProtocol.String()+": ", "", ErrUnsupportedProtocol.Error()+": ", "")
	text := strings.TrimSuffix(again.Replace(e.cause.Error()+": "), ": ")
	if text == "register" { // the brain has said no more
		text = "register: refused"
	}
	return fmt.Sprintf("%v: %s; update the executor or the brain", ErrUnsupportedProtocol, text)
}

func (e *errUnsupported) Unwrap() []error { return []error{ErrUnsupportedProtocol, e.cause} }

// permanent returns the error with which Run ends, or nil when another attempt may
// succeed (spec sections 3 and 14.5). Each line has its reason.
func permanent(err error) error {
	var closed *rpc.CloseError
	if errors.As(err, &closed) && !closed.Local {
		switch closed.Code {
		case protocol.CloseUnauthorized: // the brain knows the credential and does not take it
			return fmt.Errorf("%w: %w; check the token", ErrCredentialRejected, err)
		case protocol.CloseUnsupportedProtocol: // no version in common: waiting does not help
			return fmt.Errorf("%w: %w; update the executor or the brain", ErrUnsupportedProtocol, err)
		case protocol.CloseRegistrationRefused: // the brain does not want this executor
			return fmt.Errorf("%w: %w", ErrRegistrationRefused, err)
		case protocol.CloseReplaced: // going on would displace the other one, for ever
			return fmt.Errorf("%w: %w", ErrReplaced, err)
		}
	}
	var dial *rpc.DialError
	if errors.As(err, &dial) {
		switch dial.Status {
		case http.StatusUnauthorized, http.StatusForbidden: // the token was read again before
			return fmt.Errorf("%w: %w; check the token", ErrCredentialRejected, err)
		case http.StatusGone: // the brain has known this executor, and says that it is not to come back
			return fmt.Errorf("%w: %w; the executor, or the brain itself, was removed there", ErrRegistrationRefused, err)
		}
	}
	if errors.Is(err, protocol.ErrUnsupportedProtocol) { // chosen by nobody, or refused in register
		return &errUnsupported{err}
	}
	var reg *errRegister
	if errors.As(err, &reg) {
		switch {
		case reg.cause.Data.Retryable: // the brain says so itself
			return nil
		case errors.Is(reg.cause, protocol.ErrConflict): // it still holds this executor's last connection
			return nil
		case errors.Is(reg.cause, protocol.ErrUnauthorized):
			return fmt.Errorf("%w: %w; check the token", ErrCredentialRejected, err)
		default:
			return fmt.Errorf("%w: %w", ErrRegistrationRefused, err)
		}
	}
	return nil
}

// credentialRejected reports whether another credential might do.
func credentialRejected(end error) bool { return errors.Is(end, ErrCredentialRejected) }

// refusedOutright reports whether nobody listens where the brain should be. Asking
// again costs nobody anything, so that the wait is kept shorter.
func refusedOutright(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// closedWith reports whether the peer closed the connection with code.
func closedWith(err error, code int) bool {
	var closed *rpc.CloseError
	return errors.As(err, &closed) && !closed.Local && closed.Code == code
}

// nobodyBehindProxy reports whether a proxy before the brain says that it is away.
func nobodyBehindProxy(err error) bool {
	var dial *rpc.DialError
	return errors.As(err, &dial) && (dial.Status == http.StatusBadGateway || dial.Status == http.StatusServiceUnavailable || dial.Status == http.StatusGatewayTimeout)
}

// maxRetryFloor bounds what a brain, or something on the way to it, may ask for.
const maxRetryFloor = time.Hour

// retryFloor is the shortest next delay that the brain asked for.
func retryFloor(err error) time.Duration { return min(askedFor(err), maxRetryFloor) }

func askedFor(err error) time.Duration {
	var dial *rpc.DialError
	if errors.As(err, &dial) {
		return dial.RetryAfter
	}
	var closed *rpc.CloseError
	if errors.As(err, &closed) {
		text, _ := strings.CutPrefix(closed.Reason, "retry-after=")
		digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
		if text != closed.Reason && digits != "" {
			seconds, _ := strconv.Atoi(digits) // one that is too large is the largest there is
			return protocol.Millis(int64(min(seconds, 1<<30)) * 1000)
		}
	}
	return 0
}

// Causes with which a call's or a session's context ends.
var (
	errCallCanceled = protocol.Errorf(protocol.CodeCanceled, "the call was canceled by the brain")
	errCallDeadline = protocol.Errorf(protocol.CodeTimeout, "the call's deadline passed").WithRetryable(false)
	errStopped      = protocol.Errorf(protocol.CodeCanceled, "the session was stopped")
	errReplacedWork = protocol.Errorf(protocol.CodeCanceled, "the session was assigned again with a higher fencing token")
	errNotHeld      = protocol.Errorf(protocol.CodeCanceled, "the brain no longer holds the session")
	errNobodyToAsk  = protocol.Errorf(protocol.CodeForbidden, "the call needs the local user's confirmation, and this executor has no way to ask for it").WithReason(protocol.ReasonLocalConfirmationDenied)
	errLeaving      = protocol.Errorf(protocol.CodeCanceled, "the executor is leaving; this waited for the local user's confirmation and had not started")
	errShutdown     = protocol.Errorf(protocol.CodeCanceled, "the executor was shut down")
)

// errNotAccepted is accepted: false, which is a refusal for now (spec section 14).
func errNotAccepted(method string) *protocol.Error {
	return protocol.Errorf(protocol.CodeResourceUnavailable, "%s: the brain did not accept it", method)
}

// causeOf is the *protocol.Error a context ended with.
func causeOf(ctx context.Context) *protocol.Error {
	var e *protocol.Error
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return errCallCanceled
}
