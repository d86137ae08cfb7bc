package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

const environmentKey = "environment-key-0123456789"

// exchanging is an exchange in front of a brain on the world's server, which counts.
type exchanging struct {
	w      *world
	answer func(n int, rw http.ResponseWriter, r *http.Request) bool // n: the exchange, from 1; true: answered

	mu     sync.Mutex
	asked  []time.Time
	keys   []string
	tokens []string // of the dials
	given  []string
	issuer http.Handler
}

// exchange puts a real issuer in front of what is behind it.
func (w *world) exchange(ttl time.Duration, behind func(*brain.Issuer) http.Handler) *exchanging {
	issuer, err := brain.NewIssuer(brain.IssuerOptions{Authorize: brain.SharedKey(environmentKey), TTL: ttl})
	require.NoError(w.t, err)
	x := &exchanging{w: w, issuer: issuer}
	mux := http.NewServeMux()
	mux.Handle(brain.ExchangePattern, x)
	next := behind(issuer)
	mux.HandleFunc("/executor", func(rw http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		x.tokens = append(x.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		x.mu.Unlock()
		next.ServeHTTP(rw, r)
	})
	w.handle(mux)
	return x
}

func (x *exchanging) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	x.asked = append(x.asked, time.Now())
	x.keys = append(x.keys, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	n := len(x.asked)
	x.mu.Unlock()
	if x.answer != nil && x.answer(n, rw, r) {
		return
	}
	c := &copied{ResponseWriter: rw}
	x.issuer.ServeHTTP(c, r)
	var given protocol.TokenExchangeResponse
	if json.Unmarshal(c.body, &given) == nil {
		x.mu.Lock()
		x.given = append(x.given, given.Token)
		x.mu.Unlock()
	}
}

type copied struct {
	http.ResponseWriter
	body []byte
}

func (c *copied) Write(p []byte) (int, error) {
	c.body = append(c.body, p...)
	return c.ResponseWriter.Write(p)
}

func (x *exchanging) so() (asked []time.Time, given, dialed []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.asked), slices.Clone(x.given), slices.Clone(x.tokens)
}

// options of an exchange over the world's network.
func (w *world) exchangeOptions(change func(*ExchangeOptions)) ExchangeOptions {
	o := ExchangeOptions{
		BaseURL: "http://localhost", EnvironmentID: "env", Name: "test",
		Key:       func(context.Context) (string, error) { return environmentKey, nil },
		Transport: &http.Transport{DialContext: w.net.DialOptions().NetDial, DisableKeepAlives: true},
	}
	if change != nil {
		change(&o)
	}
	return o
}

// source makes the executor's credentials those of an exchange.
func (w *world) source(change func(*ExchangeOptions)) func(*Options) {
	return func(o *Options) {
		x, err := NewExchange(w.exchangeOptions(change))
		require.NoError(w.t, err)
		o.Credentials = x.Credential
		o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
			d := w.net.DialOptions()
			d.Token = token
			return w.faults.Dial(ctx, "ws://brain/executor", d)
		}
	}
}

// real is a real brain that lets in whom the issuer says.
func (w *world) real(made **brain.Brain) func(*brain.Issuer) http.Handler {
	return func(i *brain.Issuer) http.Handler {
		*made = brain.New(brain.Options{Authenticate: i.Authenticate})
		w.ends = append(w.ends, func() { require.NoError(w.t, (*made).Close("test ends")) })
		return *made
	}
}

// A token of ten seconds is renewed on the living connection for as long as that
// lives, and the next dial uses the newest (case 104).
func TestTokenRenewed(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var b *brain.Brain
		x := w.exchange(10*time.Second, w.real(&b))
		w.run(w.source(nil))
		sleep(30 * time.Second)
		require.Equal(t, StateReady, w.Status().State)
		asked, given, dialed := x.so()
		require.Len(t, asked, 4)
		for i := 1; i < len(asked); i++ {
			require.Equal(t, 8*time.Second, asked[i].Sub(asked[i-1]).Round(time.Millisecond))
		}
		require.Equal(t, given[:1], dialed, "one connection all the time")

		w.faults.CutNow()
		sleep(5 * time.Second)
		require.Equal(t, StateReady, w.Status().State)
		_, given, dialed = x.so()
		require.Len(t, dialed, 2)
		require.Equal(t, given[len(given)-1], dialed[1])
		require.NotEqual(t, dialed[0], dialed[1])
		sleep(20 * time.Minute)
		require.Equal(t, StateReady, w.Status().State)
		_, _, dialed = x.so()
		require.Len(t, dialed, 2)
	})
}

// The exchange is away for longer than a token lives: the brain closes the connection,
// work goes on, and the executor is back when the exchange is.
func TestExchangeAway(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var b *brain.Brain
		x := w.exchange(time.Minute, w.real(&b))
		up := time.Now()
		x.answer = func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
			away := time.Since(up) > 10*time.Second && time.Since(up) < 10*time.Minute
			if away {
				http.Error(rw, "the database is away", http.StatusServiceUnavailable)
			}
			return away
		}
		w.run(w.source(nil))
		sleep(55 * time.Second)
		require.Equal(t, StateReady, w.Status().State)
		require.Contains(t, w.Status().LastError, "503 Service Unavailable: the database is away")
		asked, _, _ := x.so()
		require.Greater(t, len(asked), 2)
		require.Less(t, len(asked), 10)
		sleep(10 * time.Second)
		require.NotEqual(t, StateReady, w.Status().State, "the token has run out")
		sleep(8 * time.Minute)
		require.NotEqual(t, StateStopped, w.Status().State)
		sleep(2 * time.Minute)
		require.Equal(t, StateReady, w.Status().State)
		asked, _, _ = x.so()
		require.Less(t, len(asked), 160, "with growing delays, up to 12 s")
	})
}

// How the answers of the exchange are judged.
func TestExchangeRefused(t *testing.T) {
	for _, c := range []struct {
		status int
		end    error
		says   string
	}{
		{http.StatusUnauthorized, ErrCredentialRejected, `the environment key is not good for environment "env"`},
		{http.StatusForbidden, ErrCredentialRejected, `the environment key is not good for environment "env"`},
		{http.StatusNotFound, nil, "check --base-url and --environment"},
		{http.StatusTooManyRequests, nil, "429"},
		{http.StatusInternalServerError, nil, "500"},
		{http.StatusPermanentRedirect, nil, "leads elsewhere"},
		{http.StatusSeeOther, nil, "leads elsewhere"},
		{http.StatusNoContent, nil, "204"},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				var b *brain.Brain
				x := w.exchange(time.Minute, w.real(&b))
				x.answer = func(n int, rw http.ResponseWriter, r *http.Request) bool {
					if n > 5 {
						return false
					}
					rw.Header().Set("Location", "http://elsewhere.example/")
					if c.status == http.StatusNoContent {
						rw.WriteHeader(c.status)
						return true
					}
					http.Error(rw, "no, "+r.Header.Get("Authorization"), c.status)
					return true
				}
				w.run(w.source(nil))
				sleep(time.Minute)
				asked, _, _ := x.so()
				last := w.Status().LastError
				require.Contains(t, last, c.says)
				require.NotContains(t, last, environmentKey)
				if c.end != nil {
					require.ErrorIs(t, w.stopped(), c.end)
					require.NotContains(t, w.err.Error(), environmentKey)
					require.Len(t, asked, 2, "the key is looked at once more")
					return
				}
				require.Equal(t, StateReady, w.Status().State)
			})
		})
	}
}

// A key that was changed is taken at once when the old one is refused.
func TestEnvironmentKeyChanges(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var b *brain.Brain
		x := w.exchange(time.Minute, w.real(&b))
		n := 0
		w.run(w.source(func(o *ExchangeOptions) {
			o.Key = func(context.Context) (string, error) {
				if n++; n == 1 {
					return "the-key-of-yesterday", nil
				}
				return environmentKey, nil
			}
		}))
		sleep(time.Second)
		require.Equal(t, StateReady, w.Status().State)
		require.Equal(t, []string{"the-key-of-yesterday", environmentKey}, x.keys)
	})
}

func TestExchangeRetryAfter(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var b *brain.Brain
		x := w.exchange(time.Minute, w.real(&b))
		x.answer = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
			if n == 1 || n == 3 { // at the first dial, and at a renewal
				rw.Header().Set("Retry-After", "7")
				rw.WriteHeader(http.StatusTooManyRequests)
			}
			return n == 1 || n == 3
		}
		w.run(w.source(nil))
		sleep(2 * time.Minute)
		asked, _, dialed := x.so()
		require.GreaterOrEqual(t, asked[1].Sub(asked[0]), 7*time.Second)
		require.GreaterOrEqual(t, asked[3].Sub(asked[2]), 7*time.Second)
		require.Len(t, dialed, 1)
		require.Equal(t, StateReady, w.Status().State)
	})
}

// What an exchange may answer with 200, and what is made of it.
func TestExchangeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		says string        // of the error; "" = it is taken
		life time.Duration // 0 = does not end
	}{
		"good":              {body: `{"token":"abc","ws_url":"wss://b/x","expires_in":60,"executor_id":"e"}`, life: time.Minute},
		"says no life":      {body: `{"token":"abc"}`},
		"life of 0":         {body: `{"token":"abc","expires_in":0}`},
		"negative life":     {body: `{"token":"abc","expires_in":-1}`, says: "expires_in -1"},
		"endless life":      {body: `{"token":"abc","expires_in":9223372036854775807}`, life: maxLife},
		"life of no number": {body: `{"token":"abc","expires_in":"soon"}`, says: "not the JSON object"},
		"life of 1e300":     {body: `{"token":"abc","expires_in":1e300}`, says: "not the JSON object"},
		"no token":          {body: `{"expires_in":60}`, says: "has no token"},
		"token of null":     {body: `{"token":null,"expires_in":60}`, says: "has no token"},
		"token of lines":    {body: `{"token":"abc\r\nX-Evil: 1","expires_in":60}`, says: "has no token"},
		"huge token":        {body: `{"token":"` + strings.Repeat("a", 9<<10) + `"}`, says: "has no token"},
		"huge":              {body: `{"token":"abc","x":"` + strings.Repeat("a", 1<<20) + `"}`, says: "larger than 64 KiB"},
		"empty":             {body: "", says: "not the JSON object"},
		"null":              {body: "null", says: "has no token"},
		"a page":            {body: "<html>Sign in to the hotel's network</html>", says: "not the JSON object"},
		"cut":               {body: `{"token":"abc-secret`, says: "not the JSON object"},
		"two":               {body: `{"token":"abc"}{"token":"def"}`, says: "not the JSON object"},
		"array":             {body: `["abc-secret"]`, says: "not the JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.handle(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					require.Equal(t, "/v1/environments/env/executors/token", r.URL.Path)
					_, _ = io.WriteString(rw, c.body)
				}))
				x, err := NewExchange(w.exchangeOptions(nil))
				require.NoError(t, err)
				got, err := x.Credential(w.ctx)
				if c.says != "" {
					require.ErrorContains(t, err, c.says)
					require.NotContains(t, err.Error(), "abc")
					require.NoError(t, permanent(err))
					return
				}
				require.NoError(t, err)
				require.Equal(t, "abc", got.Token)
				if c.life == 0 {
					require.Zero(t, got.ExpiresAt)
				} else {
					require.Equal(t, c.life, time.Until(got.ExpiresAt))
				}
			})
		})
	}
}

// What hangs, breaks off or is not there ends within its time, and is tried again.
func TestExchangeHangs(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for _, h := range []http.HandlerFunc{
			func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body) // the server sees an end only after it
				<-r.Context().Done()
			},
			func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				_, _ = io.WriteString(rw, `{"token":"ab`)
				rw.(http.Flusher).Flush()
				<-r.Context().Done()
			},
			func(rw http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(rw, `{"token":"ab`)
				rw.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			w.handle(h)
			x, err := NewExchange(w.exchangeOptions(nil))
			require.NoError(t, err)
			began := time.Now()
			_, err = x.Credential(w.ctx)
			require.Error(t, err)
			require.NoError(t, permanent(err))
			require.LessOrEqual(t, time.Since(began), 30*time.Second)

			ctx, cancel := context.WithTimeout(w.ctx, time.Second)
			began = time.Now()
			_, err = x.Credential(ctx)
			cancel()
			require.Error(t, err)
			require.LessOrEqual(t, time.Since(began), time.Second)
		}
	})
}

func TestExchangeOptions(t *testing.T) {
	for _, c := range []struct {
		change func(*ExchangeOptions)
		says   string
	}{
		{func(o *ExchangeOptions) { o.BaseURL = "" }, "base URL is missing"},
		{func(o *ExchangeOptions) { o.BaseURL = "://" }, "not a URL"},
		{func(o *ExchangeOptions) { o.BaseURL = "wss://host" }, "the scheme must be https or http"},
		{func(o *ExchangeOptions) { o.BaseURL = "https:///x" }, "the host is missing"},
		{func(o *ExchangeOptions) { o.BaseURL = "https://me:geheim99@host" }, "a user name or password"},
		{func(o *ExchangeOptions) { o.BaseURL = "https://me:geheim99@host:x" }, "not a URL"},
		{func(o *ExchangeOptions) { o.BaseURL = "https://host?key=geheim99" }, "a query or fragment"},
		{func(o *ExchangeOptions) { o.BaseURL = "http://192.0.2.1" }, "in clear text"},
		{func(o *ExchangeOptions) { o.BaseURL = "http://localhost.example" }, "in clear text"},
		{func(o *ExchangeOptions) { o.EnvironmentID = "" }, "environment:"},
		{func(o *ExchangeOptions) { o.EnvironmentID = ".." }, "environment:"},
		{func(o *ExchangeOptions) { o.Key = nil }, "environment key"},
		{func(o *ExchangeOptions) { o.BaseURL, o.Insecure = "http://192.0.2.1", true }, ""},
		{func(o *ExchangeOptions) { o.BaseURL = "https://host/" }, ""},
	} {
		o := ExchangeOptions{BaseURL: "https://host", EnvironmentID: "a/b c", Key: func(context.Context) (string, error) { return "", nil }}
		c.change(&o)
		x, err := NewExchange(o)
		if c.says == "" {
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(x.url, "/v1/environments/a%2Fb%20c/executors/token") && !strings.Contains(x.url, "//v1"), x.url)
			_, err = x.Credential(t.Context())
			require.ErrorContains(t, err, "environment key: it is empty")
			continue
		}
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "geheim99")
	}
	_, err := New(Options{URL: "ws://127.0.0.1/", Token: func(context.Context) (string, error) { return "", nil },
		Credentials: func(context.Context) (Credential, error) { return Credential{}, nil }})
	require.ErrorContains(t, err, "both given")
}

// Dials one after another do not ask the exchange each time, and never use what was
// refused.
func TestExchangeInAStorm(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var s *script
		x := w.exchange(time.Hour, func(*brain.Issuer) http.Handler {
			s = w.script(func(s *script) {
				s.behind = func(_ int, c *rpc.Conn) { c.Shutdown(protocol.CloseGoingAway, "") }
			})
			return s
		})
		w.handle(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				x.ServeHTTP(rw, r)
				return
			}
			s.ServeHTTP(rw, r)
		}))
		source := w.source(nil)
		w.run(func(o *Options) {
			source(o)
			o.MinBackoff, o.MaxBackoff = 100*time.Millisecond, 200*time.Millisecond
		})
		sleep(time.Minute)
		asked, given, _ := x.so()
		dialed := s.so().tokens
		require.Greater(t, len(dialed), 200)
		require.LessOrEqual(t, len(asked), 12)
		require.Equal(t, given, slices.Compact(slices.Clone(dialed)), "the newest each time")
	})
}

// A brain that is started again and again knows none of the tokens it gave before; each
// time a new one is fetched.
func TestBrainForgetsItsTokens(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var brains []*brain.Brain
		restart := func() {
			w.exchange(time.Hour, func(i *brain.Issuer) http.Handler {
				brains = append(brains, brain.New(brain.Options{Authenticate: i.Authenticate}))
				return brains[len(brains)-1]
			})
		}
		restart()
		source := w.source(nil)
		w.run(func(o *Options) {
			source(o)
			o.MaxBackoff = time.Second
		})
		for range 5 {
			sleep(3 * time.Second)
			require.Equal(t, StateReady, w.Status().State)
			old := brains[len(brains)-1]
			restart()
			require.NoError(t, old.Close("going away"))
		}
		sleep(3 * time.Second)
		require.Equal(t, StateReady, w.Status().State)
		require.NoError(t, brains[len(brains)-1].Close("test ends"))
	})
}

// The file is read at every dial, and what is in it now is what is sent (case 105).
func TestTokenFileRotates(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		file := filepath.Join(t.TempDir(), "token")
		put := func(token string) { require.NoError(t, os.WriteFile(file, []byte(token), 0o600)) }
		s := w.script(nil)
		put("one")
		change := func(o *Options) {
			o.Token = func(context.Context) (string, error) {
				raw, err := os.ReadFile(file)
				return string(raw), err
			}
		}
		w.run(change)
		sleep(time.Second)
		put("two")
		s.conn().Shutdown(protocol.CloseGoingAway, "")
		sleep(5 * time.Second)
		put("three")
		s.conn().Shutdown(protocol.CloseGoingAway, "")
		sleep(5 * time.Second)
		require.Equal(t, []string{"one", "two", "three"}, s.so().tokens)
		w.leave()
		require.NoError(t, w.stopped())

		w.ran = make(chan struct{})
		put("four")
		w.run(change)
		sleep(time.Second)
		require.Equal(t, []string{"one", "two", "three", "four"}, s.so().tokens)
	})
}

// own is a source of an embedder's own, whose tokens live ten seconds.
type own struct {
	mu    sync.Mutex
	asked int
	err   error
	more  Credential // what it says besides
}

func (o *own) credential(context.Context) (Credential, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	c := o.more
	c.Token, c.ExpiresAt = fmt.Sprint("own-token-", o.asked), time.Now().Add(10*time.Second)
	return c, o.err
}

// refreshes answers executor.token_refresh as a test says, and writes down.
func refreshes(w *world, answer func(n int, token string) error, more func(*script)) (*script, *[]string) {
	var tokens []string
	s := w.script(more)
	s.also = func(x *rpc.Mux) {
		rpc.Handle(x, protocol.ExecutorTokenRefresh, func(_ context.Context, p protocol.TokenRefreshParams) (protocol.TokenRefreshResult, error) {
			n := s.note("refresh", p.Token)
			tokens = append(tokens, p.Token)
			return protocol.TokenRefreshResult{}, answer(n, p.Token)
		})
	}
	return s, &tokens
}

func TestRefreshRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		tokens []string
	}{
		"unauthorized: with another one": {protocol.ErrUnauthorized, []string{"own-token-2", "own-token-3", "own-token-4"}},
		"not now: with the same":         {protocol.ErrResourceUnavailable, []string{"own-token-2", "own-token-2", "own-token-2"}},
		"unknown: not again":             {protocol.ErrMethodNotFound, []string{"own-token-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				s, tokens := refreshes(w, func(n int, _ string) error {
					if n < 3 {
						return c.err
					}
					return nil
				}, nil)
				w.run(func(o *Options) { o.Credentials = (&own{}).credential })
				sleep(14 * time.Second)
				require.Equal(t, c.tokens, *tokens)
				require.Equal(t, StateReady, w.Status().State)
				require.Len(t, s.so().dials, 1)
				if len(c.tokens) > 1 {
					require.Contains(t, w.Status().LastError, "token refresh")
				}
			})
		})
	}
}

// A brain that does not answer is dead; the newest token dials again.
func TestRefreshUnanswered(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, _ := refreshes(w, func(n int, _ string) error {
			if n == 1 {
				time.Sleep(time.Minute)
			}
			return nil
		}, nil)
		w.run(func(o *Options) { o.Credentials = (&own{}).credential })
		sleep(37 * time.Second)
		require.Len(t, s.so().dials, 1)
		sleep(20 * time.Second)
		require.Len(t, s.so().dials, 2)
		require.Equal(t, "own-token-3", s.so().tokens[1])
	})
}

// Closed for its token: a fresh one is fetched, whatever was given just now; when the
// source is away just then, it is waited for.
func TestClosedForItsToken(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		src := &own{}
		s, _ := refreshes(w, func(int, string) error { return nil }, func(s *script) {
			s.behind = func(n int, c *rpc.Conn) {
				if n == 1 {
					src.mu.Lock()
					src.err = errors.New("the source is away")
					src.mu.Unlock()
					time.AfterFunc(20*time.Second, func() {
						src.mu.Lock()
						src.err = nil
						src.mu.Unlock()
					})
					c.Shutdown(protocol.CloseUnauthorized, "the token was revoked")
				}
			}
		})
		w.run(func(o *Options) { o.Credentials = src.credential })
		sleep(10 * time.Second)
		require.NotEqual(t, StateStopped, w.Status().State)
		require.Contains(t, w.Status().LastError, "the source is away")
		sleep(time.Minute)
		require.Equal(t, StateReady, w.Status().State)
		require.Len(t, s.so().dials, 2)
	})
}

// The identity that comes with a credential is used by an executor that has none.
func TestIdentityWithTheToken(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		src := &own{more: Credential{ExecutorID: "exe_given"}}
		s := w.script(nil) // which says exe_1
		w.run(func(o *Options) { o.Credentials = src.credential })
		sleep(time.Second)
		s.conn().Shutdown(protocol.CloseGoingAway, "")
		sleep(5 * time.Second)
		registers := s.so().registers
		require.Len(t, registers, 2)
		require.Equal(t, "exe_given", registers[0].Resume.ExecutorID)
		require.Equal(t, "exe_1", registers[1].Resume.ExecutorID, "the brain decides")
	})
}

// Where to dial comes with the credential when nothing is configured, and is held to
// the same rules.
func TestURLWithTheToken(t *testing.T) {
	for given, says := range map[string]string{
		"":                              "nothing says where the brain is",
		"ws://192.0.2.1/executor":       "in clear text",
		"http://127.0.0.1/":             "the scheme must be",
		"unix:///run/docker.sock":       "want a URL like wss://",
		"wss://me:geheim99@127.0.0.1:1": "with no user name in it",
		"wss://":                        "want a URL like wss://",
		"ws://127.0.0.1:1/executor":     "connection refused",
	} {
		src := &own{more: Credential{URL: given}}
		e, err := New(Options{Credentials: src.credential, MinBackoff: time.Hour, MaxBackoff: time.Hour})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- e.Run(ctx) }()
		require.Eventually(t, func() bool { return e.Status().LastError != "" }, 10*time.Second, time.Millisecond)
		require.Contains(t, e.Status().LastError, says)
		require.NotContains(t, e.Status().LastError, "geheim99")
		if says == "connection refused" {
			require.Equal(t, given, e.Status().Brain)
		} else {
			require.Empty(t, e.Status().Brain)
		}
		cancel()
		require.NoError(t, <-ran)
	}
}

// No token and no key is ever in a log line, in a status or in an error, also when the
// other end says them back.
func TestTokensAreNotLogged(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zapcore.DebugLevel)
		src := &own{}
		_, _ = refreshes(w, func(n int, token string) error {
			if n == 1 {
				return protocol.Errorf(protocol.CodeUnauthorized, "%s is bad", token)
			}
			return nil
		}, func(s *script) {
			s.http = func(n int, rw http.ResponseWriter, r *http.Request) bool {
				if n%2 == 1 {
					http.Error(rw, "not now, "+r.Header.Get("Authorization"), http.StatusBadGateway)
				}
				return n%2 == 1
			}
		})
		w.run(func(o *Options) { o.Credentials, o.Logger = src.credential, zap.New(core) })
		sleep(time.Minute)
		require.Equal(t, StateReady, w.Status().State)
		require.NotContains(t, w.Status().LastError, "own-token")
		require.NotZero(t, logs.FilterMessage("token not renewed").Len())
		require.NotZero(t, logs.FilterMessage("not connected").Len())
		for _, l := range logs.All() {
			require.NotContains(t, fmt.Sprint(l.Message, l.ContextMap()), "own-token")
		}
	})

}
