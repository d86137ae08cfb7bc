package brain

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

const testKey = "environment-key-0123456789"

func newIssuer(t *testing.T, change func(*IssuerOptions)) *Issuer {
	t.Helper()
	o := IssuerOptions{Authorize: SharedKey(testKey), TTL: 10 * time.Second}
	if change != nil {
		change(&o)
	}
	i, err := NewIssuer(o)
	require.NoError(t, err)
	return i
}

// exchange asks for a token over HTTP.
func exchange(i *Issuer, path, key, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Host = "brain.example"
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	mux := http.NewServeMux()
	mux.Handle(ExchangePattern, i)
	mux.ServeHTTP(w, r)
	return w
}

func (i *Issuer) give(t *testing.T, environment, name string) protocol.TokenExchangeResponse {
	t.Helper()
	body, err := json.Marshal(protocol.TokenExchangeRequest{EnvironmentID: environment, Executor: protocol.ExecutorInfo{Name: name}})
	require.NoError(t, err)
	w := exchange(i, "/v1/environments/"+environment+"/executors/token", testKey, string(body), nil)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var r protocol.TokenExchangeResponse
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
	return r
}

func with(token string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
}

func TestIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, nil)
		given := i.give(t, "env", "box")
		require.Equal(t, "ws://brain.example/executor", given.WSURL)
		require.EqualValues(t, 10, given.ExpiresIn)
		require.Empty(t, given.ExecutorID)
		require.NotEqual(t, given.Token, i.give(t, "env", "box").Token, "each is another one")

		who, err := i.Authenticate(with(given.Token))
		require.NoError(t, err)
		require.Equal(t, "env", who.EnvironmentID)
		require.True(t, who.ExpiresAt.Equal(time.Now().Add(10*time.Second)))
		again, err := i.Authenticate(with(i.give(t, "env", "box").Token))
		require.NoError(t, err)
		require.Equal(t, who, again)
		other, err := i.Authenticate(with(i.give(t, "env", "other").Token))
		require.NoError(t, err)
		require.NotEqual(t, who.Name, other.Name)

		time.Sleep(10*time.Second - time.Millisecond)
		_, err = i.Authenticate(with(given.Token))
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		_, err = i.Authenticate(with(given.Token))
		require.ErrorIs(t, err, protocol.ErrUnauthorized)
		require.Contains(t, err.Error(), "run out")
	})
}

// Nothing but what this issuer signed lets anybody in, and no error has a token in it.
func TestForgedTokens(t *testing.T) {
	i, other := newIssuer(t, nil), newIssuer(t, nil)
	token := i.give(t, "env", "box").Token
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, tokenPrefix))
	require.NoError(t, err)
	changed := bytes.Replace(raw, []byte(`"box"`), []byte(`"bax"`), 1)
	require.NotEqual(t, raw, changed)
	forged := []string{"", " ", token + "A", token[:len(token)-1], tokenPrefix, "ext2." + token[5:], strings.Repeat("A", 1<<20),
		tokenPrefix + strings.Repeat("A", 60), tokenPrefix + base64.RawURLEncoding.EncodeToString(changed),
		tokenPrefix + "!!!", other.give(t, "env", "box").Token, testKey}
	for n := range len(raw) {
		flipped := bytes.Clone(raw)
		flipped[n] ^= 1
		forged = append(forged, tokenPrefix+base64.RawURLEncoding.EncodeToString(flipped))
	}
	for _, f := range forged {
		_, err := i.Authenticate(with(f))
		require.ErrorIs(t, err, protocol.ErrUnauthorized, f)
		if len(f) > 8 {
			require.NotContains(t, err.Error(), f)
		}
	}
	_, err = i.Authenticate(&http.Request{})
	require.ErrorIs(t, err, protocol.ErrUnauthorized)
	_, err = i.Authenticate(&http.Request{Header: http.Header{"Authorization": {"Basic " + token}}})
	require.ErrorIs(t, err, protocol.ErrUnauthorized)
}

func TestExchangeRefuses(t *testing.T) {
	var authorize error
	i := newIssuer(t, func(o *IssuerOptions) {
		shared := o.Authorize
		o.Authorize = func(ctx context.Context, environment, key string) error {
			if authorize != nil {
				return authorize
			}
			return shared(ctx, environment, key)
		}
	})
	const path, body = "/v1/environments/env/executors/token", `{"environment_id":"env","executor":{"name":"box"}}`
	for _, c := range []struct {
		name, path, key, body string
		authorize             error
		status                int
		says                  string
	}{
		{name: "no key", path: path, body: body, status: 401, says: "an environment key is needed"},
		{name: "another key", path: path, key: testKey + "x", body: body, status: 401, says: "not this brain's"},
		{name: "no body", path: path, key: testKey, status: 400, says: "the body"},
		{name: "garbage", path: path, key: testKey, body: "{{", status: 400, says: "the body"},
		{name: "too large", path: path, key: testKey, body: `{"x":"` + strings.Repeat("y", 20<<10) + `"}`, status: 400, says: "16 KiB"},
		{name: "another environment", path: path, key: testKey, body: `{"environment_id":"other"}`, status: 400, says: "environment_id"},
		{name: "long id", path: "/v1/environments/" + strings.Repeat("e", 201) + "/executors/token", key: testKey, body: "{}", status: 400, says: "environment_id"},
		{name: "control characters", path: "/v1/environments/a%0ab/executors/token", key: testKey, body: "{}", status: 400, says: "environment_id"},
		{name: "long name", path: path, key: testKey, body: `{"executor":{"name":"` + strings.Repeat("n", 201) + `"}}`, status: 400, says: "executor.name"},
		{name: "forbidden", path: path, key: testKey, body: body, authorize: protocol.ErrForbidden, status: 403, says: "forbidden"},
		{name: "not found", path: path, key: testKey, body: body, authorize: protocol.ErrNotFound, status: 404, says: "not found"},
		{name: "away", path: path, key: testKey, body: body, authorize: errors.New("the key store at 10.0.0.1 is away"), status: 503, says: "cannot be checked now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			authorize = c.authorize
			w := exchange(i, c.path, c.key, c.body, nil)
			require.Equal(t, c.status, w.Code)
			require.Contains(t, w.Body.String(), c.says)
			require.NotContains(t, w.Body.String(), testKey)
			require.NotContains(t, w.Body.String(), "10.0.0.1")
		})
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	mux := http.NewServeMux()
	mux.Handle(ExchangePattern, i)
	mux.ServeHTTP(w, r)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestIssuerOptions(t *testing.T) {
	_, err := NewIssuer(IssuerOptions{})
	require.ErrorContains(t, err, "Authorize is missing")
	require.Error(t, SharedKey("")(t.Context(), "env", ""), "no key is none")

	i := newIssuer(t, func(o *IssuerOptions) {
		o.TTL = time.Millisecond
		o.ExecutorID = func(environment string, info protocol.ExecutorInfo) string { return environment + "-" + info.Name }
	})
	given := i.give(t, "env", "box")
	require.EqualValues(t, 1, given.ExpiresIn)
	require.Equal(t, "env-box", given.ExecutorID)
	who, err := i.Authenticate(with(given.Token))
	require.NoError(t, err)
	require.Equal(t, "env-box", who.ExecutorID)

	i = newIssuer(t, nil)
	url := func(change func(*http.Request)) string {
		w := exchange(i, "/v1/environments/env/executors/token", testKey, `{}`, change)
		var r protocol.TokenExchangeResponse
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		return r.WSURL
	}
	require.Equal(t, "wss://brain.example/executor", url(func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") }))
	i = newIssuer(t, func(o *IssuerOptions) { o.URL = "wss://elsewhere/x" })
	require.Equal(t, "wss://elsewhere/x", url(nil))
}

// A connection lasts as long as its token, and every new one makes it last longer.
func TestTokenRunsOut(t *testing.T) {
	var i *Issuer
	o := Options{Authenticate: func(r *http.Request) (Principal, error) { return i.Authenticate(r) }}
	in(t, o, func(t *testing.T, b *bench) {
		i = newIssuer(t, nil)
		h, _ := b.executor(func(h *hand) {
			h.dial = func(ctx context.Context) (rpc.Frames, error) {
				o := b.net.DialOptions()
				o.Token = i.give(t, "env", "hand").Token
				return rpc.Dial(ctx, "ws://brain/", o)
			}
		})
		refresh := func(token string) (protocol.TokenRefreshResult, error) {
			return rpc.Call(b.ctx, h.connection(), protocol.ExecutorTokenRefresh, protocol.TokenRefreshParams{Token: token})
		}
		first := h.connection()
		stale := i.give(t, "env", "hand").Token
		for range 5 {
			time.Sleep(8 * time.Second)
			r, err := refresh(i.give(t, "env", "hand").Token)
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(10*time.Second), r.ExpiresAt.Time, time.Millisecond)
		}
		_, err := refresh(stale)
		require.ErrorIs(t, err, protocol.ErrUnauthorized)
		_, err = refresh(i.give(t, "env", "another").Token)
		require.ErrorIs(t, err, protocol.ErrForbidden)
		require.NoError(t, first.Err())

		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		require.NoError(t, first.Err(), "what was refused changes nothing")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		var closed *rpc.CloseError
		require.ErrorAs(t, first.Err(), &closed)
		require.Equal(t, protocol.CloseUnauthorized, closed.Code)
		require.Equal(t, "the token has run out", closed.Reason)
	})
}
