package brain

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// ExchangePattern is where an Issuer belongs in an http.ServeMux.
const ExchangePattern = "POST /v1/environments/{environment_id}/executors/token"

// IssuerOptions of NewIssuer. Authorize is required; other zero fields are defaults.
type IssuerOptions struct {
	// Authorize judges an environment key. An error that is protocol.ErrUnauthorized,
	// ErrForbidden or ErrNotFound is answered with 401, 403 or 404, any other with
	// 503. SharedKey is one.
	Authorize func(ctx context.Context, environmentID, key string) error
	// ExecutorID binds tokens to an executor: it says who an executor of that
	// environment is, and always the same. nil: tokens say nothing about that, and an
	// executor keeps the identity it has.
	ExecutorID func(environmentID string, info protocol.ExecutorInfo) string
	// URL of the brain for executors (default: /executor on the host that the request
	// names, wss if it came over TLS or a proxy says that it did).
	URL    string
	TTL    time.Duration // of tokens (default 1 h, at least 1 s)
	Logger *zap.Logger   // default: none
}

// Issuer gives short-lived tokens for environment keys (spec section 1.4):
//
//	issuer, err := brain.NewIssuer(brain.IssuerOptions{Authorize: brain.SharedKey(key)})
//	mux.Handle(brain.ExchangePattern, issuer)
//	b := brain.New(brain.Options{Authenticate: issuer.Authenticate})
//
// A token is signed with a key that this Issuer alone has and that ends with it, and
// holds all there is to know: nothing is kept of it. After a restart executors ask for
// new ones. An Issuer may be used concurrently and needs no end.
type Issuer struct {
	opts   IssuerOptions
	secret []byte
}

const (
	defaultTokenTTL = time.Hour
	maxExchangeBody = 16 << 10
	maxIssuedToken  = 4 << 10
	maxIDBytes      = 200
	tokenPrefix     = "ext1."
	sumSize         = sha256.Size
	uniqueSize      = 8
)

// NewIssuer makes an Issuer, with a signing key of its own.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	if o.Authorize == nil {
		return nil, errors.New("issuer: Authorize is missing; give one, like brain.SharedKey")
	}
	o.TTL = max(positive(o.TTL, defaultTokenTTL), time.Second)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	secret := make([]byte, sha256.Size)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	return &Issuer{opts: o, secret: secret}, nil
}

// SharedKey is an Authorize with one key for every environment. It compares in
// constant time.
func SharedKey(key string) func(ctx context.Context, environmentID, key string) error {
	want := sha256.Sum256([]byte(key))
	return func(_ context.Context, _, given string) error {
		sum := sha256.Sum256([]byte(given))
		if given == "" || subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
			return protocol.Errorf(protocol.CodeUnauthorized, "the environment key is not this brain's")
		}
		return nil
	}
}

// claims are what is in a token.
type claims struct {
	Name        string `json:"n"`
	Environment string `json:"e"`
	ExecutorID  string `json:"x,omitempty"`
	Expires     int64  `json:"t"` // Unix milliseconds
}

// ServeHTTP is the exchange.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	answer, err := i.exchange(w, r)
	if err != nil {
		i.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) (protocol.TokenExchangeResponse, error) {
	var answer protocol.TokenExchangeResponse
	key, ok := bearer(r)
	if !ok {
		return answer, protocol.Errorf(protocol.CodeUnauthorized, "an environment key is needed, as Authorization: Bearer")
	}
	var q protocol.TokenExchangeRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxExchangeBody)).Decode(&q); err != nil {
		return answer, protocol.Errorf(protocol.CodeInvalidParams, "the body: want an object with environment_id and executor, of at most 16 KiB")
	}
	environment := r.PathValue("environment_id")
	switch {
	case environment == "":
		environment = q.EnvironmentID
	case q.EnvironmentID != "" && q.EnvironmentID != environment:
		return answer, protocol.Errorf(protocol.CodeInvalidParams, "environment_id: it is not that of the path")
	}
	if !plainID(environment) {
		return answer, protocol.Errorf(protocol.CodeInvalidParams, "environment_id: want one of at most 200 printable characters")
	}
	if len(q.Executor.Name) > maxIDBytes {
		return answer, protocol.Errorf(protocol.CodeInvalidParams, "executor.name: want at most 200 characters")
	}
	if err := i.opts.Authorize(r.Context(), environment, key); err != nil {
		return answer, err
	}
	c := claims{Name: q.Executor.Name, Environment: environment, Expires: time.Now().Add(i.opts.TTL).UnixMilli()}
	if i.opts.ExecutorID != nil {
		c.ExecutorID = i.opts.ExecutorID(environment, q.Executor)
	}
	answer = protocol.TokenExchangeResponse{Token: i.sign(c), WSURL: i.url(r), ExecutorID: c.ExecutorID,
		ExpiresIn: int64(i.opts.TTL / time.Second)}
	i.opts.Logger.Info("token issued", zap.String("remote", r.RemoteAddr), zap.String("environment", environment),
		zap.String("name", q.Executor.Name), zap.Duration("ttl", i.opts.TTL))
	return answer, nil
}

// refuse answers a request that gets no token.
func (i *Issuer) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusServiceUnavailable, "environment keys cannot be checked now"
	var e *protocol.Error
	if errors.As(err, &e) {
		statuses := map[protocol.Code]int{
			protocol.CodeUnauthorized: http.StatusUnauthorized, protocol.CodeForbidden: http.StatusForbidden,
			protocol.CodeNotFound: http.StatusNotFound, protocol.CodeInvalidParams: http.StatusBadRequest}
		if s := statuses[e.Code]; s != 0 {
			status, text = s, e.Message
		}
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	i.opts.Logger.Info("token refused", zap.String("remote", r.RemoteAddr), zap.Int("status", status), zap.Error(err))
	http.Error(w, text, status)
}

// url is the brain's own. Who sends a wrong host misleads nobody else.
func (i *Issuer) url(r *http.Request) string {
	if i.opts.URL != "" {
		return i.opts.URL
	}
	scheme := "ws"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "wss"
	}
	return scheme + "://" + r.Host + "/executor"
}

// Authenticate is that of Options, for the tokens this Issuer gave. One that has run
// out, or is not its own, is unauthorized.
func (i *Issuer) Authenticate(r *http.Request) (Principal, error) {
	token, ok := bearer(r)
	if !ok {
		return Principal{}, protocol.Errorf(protocol.CodeUnauthorized, "a token is needed, as Authorization: Bearer")
	}
	c, ok := i.verify(token)
	if !ok {
		return Principal{}, protocol.Errorf(protocol.CodeUnauthorized, "the token is not this brain's; it may be from before a restart")
	}
	until := time.UnixMilli(c.Expires)
	if !time.Now().Before(until) {
		return Principal{}, protocol.Errorf(protocol.CodeUnauthorized, "the token has run out")
	}
	return Principal{Name: strconv.Quote(c.Environment) + " " + strconv.Quote(c.Name), ExecutorID: c.ExecutorID,
		EnvironmentID: c.Environment, ExpiresAt: until}, nil
}

func bearer(r *http.Request) (string, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token, ok && token != ""
}

// sign makes a token: what is in it, a number that makes each one another, and the
// sum over both.
func (i *Issuer) sign(c claims) string {
	raw, _ := json.Marshal(c) // strings and a number
	var unique [uniqueSize]byte
	_, _ = rand.Read(unique[:]) // it never fails
	raw = append(raw, unique[:]...)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(raw, i.sum(raw)...))
}

func (i *Issuer) sum(raw []byte) []byte {
	h := hmac.New(sha256.New, i.secret)
	h.Write(raw)
	return h.Sum(nil)
}

func (i *Issuer) verify(token string) (c claims, ok bool) {
	text, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok || len(token) > maxIssuedToken {
		return c, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < sumSize+uniqueSize {
		return c, false
	}
	signed, sum := raw[:len(raw)-sumSize], raw[len(raw)-sumSize:]
	if !hmac.Equal(i.sum(signed), sum) {
		return c, false
	}
	return c, json.Unmarshal(signed[:len(signed)-uniqueSize], &c) == nil
}
