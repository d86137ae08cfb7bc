package executor

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// ExchangeOptions of NewExchange. BaseURL, EnvironmentID and Key are required; other
// zero fields are defaults.
type ExchangeOptions struct {
	// BaseURL is where the brain's API is: https://, or http://, which is for loopback
	// only unless Insecure is set. /v1/environments/… is added to it.
	BaseURL  string
	Insecure bool
	// EnvironmentID is the environment the key is for.
	EnvironmentID string
	// Key returns the environment key; it is asked every time. It must return when
	// ctx is done.
	Key func(ctx context.Context) (string, error)

	Name    string // of this executor (default: the host's name)
	Version string // of the program (default: its build's)

	TLS       *tls.Config                 // for https (default: the system's roots)
	TLSSource func() (*tls.Config, error) // is asked before every exchange instead
	Timeout   time.Duration               // of one exchange (default 30 s)
	Transport http.RoundTripper           // default: one with the proxy of the environment
}

// Exchange turns an environment key into short-lived tokens (spec section 1.4):
//
//	x, err := executor.NewExchange(executor.ExchangeOptions{BaseURL: "https://brain.example", EnvironmentID: id, Key: key})
//	ex, err := executor.New(executor.Options{Credentials: x.Credential, EnvironmentID: id})
//
// It may be used concurrently, keeps no connection open and needs no end.
type Exchange struct {
	url    string
	body   []byte
	opts   ExchangeOptions
	client *http.Client
}

const (
	maxExchangeAnswer = 64 << 10
	maxToken          = 8 << 10 // a server takes no longer header lines
)

// NewExchange checks the options. It asks nobody.
func NewExchange(o ExchangeOptions) (*Exchange, error) {
	base, err := o.base()
	if err != nil {
		return nil, err
	}
	if o.EnvironmentID == "" || o.EnvironmentID == "." || o.EnvironmentID == ".." {
		return nil, errors.New("environment: the token exchange needs the id of the environment that the key is for; give it with --environment")
	}
	if o.Key == nil {
		return nil, errors.New("environment key: the token exchange needs one; give it with --environment-key-file")
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname()
	}
	if o.Version == "" {
		o.Version = Version()
	}
	if o.Timeout <= 0 {
		o.Timeout = protocol.DefaultRequestTimeout
	}
	if o.Transport == nil && o.TLSSource == nil {
		o.Transport = transport(o.TLS.Clone())
	}
	body, err := json.Marshal(protocol.TokenExchangeRequest{EnvironmentID: o.EnvironmentID,
		Executor: protocol.ExecutorInfo{Name: o.Name, OS: runtime.GOOS, Arch: runtime.GOARCH, Version: o.Version}})
	if err != nil {
		return nil, fmt.Errorf("token exchange: %w", err)
	}
	return &Exchange{
		url:  base + "/v1/environments/" + url.PathEscape(o.EnvironmentID) + "/executors/token",
		body: body, opts: o,
		client: &http.Client{Transport: o.Transport, Timeout: o.Timeout,
			// The key goes to the host it is for and to no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// transport keeps no connection, so that there is nothing to close.
func transport(config *tls.Config) *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}
}

// base refuses what could only fail later, and a key in clear text over a network.
func (o *ExchangeOptions) base() (string, error) {
	if o.BaseURL == "" {
		return "", errors.New("base URL is missing; give one like https://host")
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil { // the error itself would repeat a password
		return "", errors.New("base URL: not a URL; give one like https://host")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("base URL %q: the scheme must be https or http", u.Redacted())
	case u.Host == "" || u.Hostname() == "":
		return "", fmt.Errorf("base URL %q: the host is missing; give one like https://host", u.Redacted())
	case u.User != nil:
		return "", fmt.Errorf("base URL %q: a user name or password in it is not used; the credential is the environment key", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("base URL: a query or fragment has no place in it; give one like https://host")
	case u.Scheme == "http" && !o.Insecure && !isLoopback(u.Hostname()):
		return "", fmt.Errorf("base URL %q: http:// would send the environment key in clear text to another host; use https://, or allow it with --insecure", u.Redacted())
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Credential exchanges the key for a new token. An answer other than 200 is a
// *rpc.DialError in the error's chain, so that it is judged as the brain's own answer
// to a dial is: 401 and 403 reject the credential, everything else is tried again,
// after what Retry-After says. Neither key nor token is ever in an error.
func (x *Exchange) Credential(ctx context.Context) (Credential, error) {
	key, err := x.opts.Key(ctx)
	if err != nil {
		return Credential{}, fmt.Errorf("environment key: %w", err)
	}
	if !plainToken(key) {
		return Credential{}, errors.New("environment key: it is empty, or has spaces or other characters in it that no key has")
	}
	c, err := x.exchange(ctx, key)
	if err != nil {
		return Credential{}, fmt.Errorf("token exchange: %w", err)
	}
	return c, nil
}

func (x *Exchange) exchange(ctx context.Context, key string) (Credential, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url, bytes.NewReader(x.body))
	if err != nil {
		return Credential{}, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	asked := time.Now() // the token's life began later
	client := *x.client
	if client.Transport == nil {
		config, err := x.opts.TLSSource()
		if err != nil {
			return Credential{}, err
		}
		client.Transport = transport(config.Clone())
	}
	resp, err := client.Do(req)
	if err != nil {
		return Credential{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxExchangeAnswer+1))
	if resp.StatusCode != http.StatusOK {
		return Credential{}, x.refused(resp, raw, key)
	}
	if err != nil {
		return Credential{}, fmt.Errorf("read the answer of %s: %w", x.url, err)
	}
	if len(raw) > maxExchangeAnswer {
		return Credential{}, fmt.Errorf("the answer of %s is larger than 64 KiB, so it is none; check --base-url", x.url)
	}
	var r protocol.TokenExchangeResponse
	if json.Unmarshal(raw, &r) != nil { // the error could have part of the token in it
		return Credential{}, fmt.Errorf("the answer of %s is not the JSON object it should be; check --base-url", x.url)
	}
	switch {
	case !plainToken(r.Token):
		return Credential{}, fmt.Errorf("the answer of %s has no token, or none that can be sent", x.url)
	case r.ExpiresIn < 0:
		return Credential{}, fmt.Errorf("the answer of %s has expires_in %d; want seconds", x.url, r.ExpiresIn)
	}
	c := Credential{Token: r.Token, URL: r.WSURL, ExecutorID: r.ExecutorID}
	if r.ExpiresIn > 0 { // else the brain does not say
		c.ExpiresAt = asked.Add(min(time.Duration(min(r.ExpiresIn, int64(maxLife/time.Second)))*time.Second, maxLife))
	}
	return c, nil
}

// refused is an answer that gives no token, with what may help against it.
func (x *Exchange) refused(resp *http.Response, raw []byte, key string) error {
	e := rpc.NewDialError(resp, raw, key)
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return fmt.Errorf("the environment key is not good for environment %q: %w", x.opts.EnvironmentID, e)
	case e.Status == http.StatusNotFound: // a brain that is being replaced says so too
		return fmt.Errorf("nothing is at %s: %w; check --base-url and --environment", x.url, e)
	case e.Status/100 == 3:
		return fmt.Errorf("%s leads elsewhere, where the key is not sent: %w; give the final place with --base-url", x.url, e)
	}
	return fmt.Errorf("%s: %w", x.url, e)
}

// plainToken reports whether s can be sent as a bearer token.
func plainToken(s string) bool {
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
