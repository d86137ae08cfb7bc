package executor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Credential is what lets an executor in, for a time. Options.Credentials gives it.
type Credential struct {
	// Token is sent in the upgrade request. "": none is.
	Token string
	// ExpiresAt is when it ends, on this machine's clock; zero: it is not known. One
	// that is known is replaced at 80 % of its life on the living connection.
	ExpiresAt time.Time
	// URL is where to dial when Options.URL says nothing; it has to be ws or wss.
	URL string
	// ExecutorID is who this executor is for the brain, when it has no identity yet.
	ExecutorID string
}

const (
	// reuseWithin is for how long after it was given a credential that has most of its
	// life before it is dialled with again, instead of asking for another: so that a
	// storm of dials is none for whoever gives them.
	reuseWithin = 5 * time.Second
	// sourceTimeout bounds a source that hangs.
	sourceTimeout = 2 * time.Minute
	// minRenewal is the shortest time between two renewals, however short a life is.
	minRenewal = time.Second
	// maxLife is longer than anything that is renewed here, and does not overflow.
	maxLife = 365 * 24 * time.Hour
	// maxGivenID bounds what is taken for an identity.
	maxGivenID = 200
)

// errNoURL ends an attempt that does not know where to go.
var errNoURL = errors.New("nothing says where the brain is: the credential came without a URL, and none is configured; give one like wss://host/executor")

// credentials asks the source, and keeps what it gave last.
type credentials struct {
	source func(context.Context) (Credential, error)

	mu    sync.Mutex
	last  Credential
	asked time.Time // when it was asked for the last one
	again bool      // the last one was handed out more than once
	spent bool      // the last one was refused
	kept  error     // of a look for another one, for the next dial
	older string    // the token before the last
}

// ask asks the source now.
func (c *credentials) ask(ctx context.Context) (Credential, error) {
	if c.source == nil {
		return Credential{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	asked := time.Now()
	given, err := c.source(ctx)
	if err != nil {
		return Credential{}, fmt.Errorf("get token: %w", err)
	}
	if !given.ExpiresAt.IsZero() && !given.ExpiresAt.After(asked) {
		return Credential{}, errors.New("get token: it has run out already; check the clocks")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if given.Token != c.last.Token {
		c.older = c.last.Token
	}
	c.last, c.asked, c.again, c.spent = given, asked, false, false
	return given, nil
}

// get is ask, or what was given just now and not refused since, or what another found
// out for it.
func (c *credentials) get(ctx context.Context) (Credential, error) {
	c.mu.Lock()
	kept := c.kept
	c.kept = nil
	last, age, life := c.last, time.Since(c.asked), c.last.ExpiresAt.Sub(c.asked)
	young := last.Token != "" && !last.ExpiresAt.IsZero() && age >= 0 && age < min(reuseWithin, life/2)
	young = young && !c.spent
	c.again = young && kept == nil
	c.mu.Unlock()
	if kept != nil {
		return Credential{}, kept
	}
	if young {
		return last, nil
	}
	return c.ask(ctx)
}

// reused reports whether the last one is from an earlier dial: that it is refused says
// nothing about a new one.
func (c *credentials) reused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again
}

// spend says that the last one was refused.
func (c *credentials) spend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spent = true
}

// another asks for one in place of the last, which was refused. An error is kept for
// the next dial, which fails with it.
func (c *credentials) another(ctx context.Context) (Credential, error) {
	c.spend()
	given, err := c.ask(ctx)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kept = err
	}
	return given, err
}

// hide takes the tokens out of a text: what a server says may repeat them.
func (c *credentials) hide(text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hideToken(hideToken(text, c.last.Token), c.older)
}

func hideToken(text, token string) string {
	if token == "" {
		return text
	}
	return strings.ReplaceAll(text, token, "[redacted]")
}

// url is where the last credential is good for.
func (c *credentials) url() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.URL
}

// renewal is how long until the last credential has to be replaced; false when it
// does not end.
func (c *credentials) renewal() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.ExpiresAt.IsZero() {
		return 0, false
	}
	life := min(c.last.ExpiresAt.Sub(c.asked), maxLife)
	return max(max(life*4/5, minRenewal)-time.Since(c.asked), 0), true
}

// takeID makes the identity that came with a credential this executor's, if it has
// none.
func (e *Executor) takeID(c Credential) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.executorID == "" && len(c.ExecutorID) <= maxGivenID {
		e.executorID = c.ExecutorID
	}
}

// brainURL is where to dial: as configured, else as the credential says, which is held
// to the same rules.
func (e *Executor) brainURL() (string, error) {
	if e.opts.URL != "" {
		return e.opts.URL, nil
	}
	given := Options{URL: e.creds.url(), Insecure: e.opts.Insecure}
	if given.URL == "" {
		return "", errNoURL
	}
	if err := given.checkURL(); err != nil {
		return "", fmt.Errorf("where the credential says to dial: %w", err)
	}
	u, err := url.Parse(given.URL)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" || u.User != nil {
		return "", errors.New("where the credential says to dial: want a URL like wss://host/executor, with no user name in it")
	}
	return given.URL, nil
}

// knownURL is brainURL for those who only say it; "" when it is not known yet.
func (e *Executor) knownURL() string {
	u, _ := e.brainURL()
	return u
}
