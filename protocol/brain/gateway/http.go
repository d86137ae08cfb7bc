package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
)

// HTTPOptions of streamable HTTP; zero fields are defaults.
type HTTPOptions struct {
	// Token is what a request has to send as "Authorization: Bearer TOKEN". It must be
	// set: whoever reaches the address could run commands otherwise.
	Token string
	// Origins are those of web pages that may send requests, like https://host or
	// http://host:8080, beside pages of this machine. Their hosts are accepted as names
	// of this server too.
	Origins []string

	MaxBodyBytes int64 // of one message (default 4 MiB)
	// Idle is how long a session may be without a request (default 30 min).
	Idle time.Duration
	// Lost is the same while calls run that nobody waits for any more: the client's
	// connection is gone (default 30 s).
	Lost time.Duration
	// Spare is how long a session must be without a request before it ends for the sake of
	// another client, because an executor takes no more sessions (default 10 s).
	Spare time.Duration
}

const sessionHeader = "Mcp-Session-Id"

// HTTP serves clients over streamable HTTP. It is an http.Handler for any path; whoever
// made it ends it with Close, after its server.
type HTTP struct {
	g     *Gateway
	opts  HTTPOptions
	token [sha256.Size]byte
	next  http.Handler
	work  sync.WaitGroup // the ends of sessions

	mu     sync.Mutex
	closed bool
	visits map[string]*visit // by session id
}

// visit is one client session over HTTP.
type visit struct {
	c     *client
	open  int         // requests under way
	since time.Time   // when open became 0
	timer *time.Timer // ends it then
	gone  chan struct{}
	ids   map[jsonrpc.ID]<-chan struct{} // of requests under way; closed when they have ended
}

// HTTP makes a handler. It starts nothing. It panics without a token.
func (g *Gateway) HTTP(o HTTPOptions) *HTTP {
	if o.Token == "" {
		panic("gateway: HTTP without a token")
	}
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 4<<20)
	o.Idle = cmp.Or(o.Idle, 30*time.Minute)
	o.Lost = cmp.Or(o.Lost, 30*time.Second)
	o.Spare = cmp.Or(o.Spare, 10*time.Second)
	h := &HTTP{g: g, opts: o, token: sha256.Sum256([]byte(o.Token)), visits: map[string]*visit{}}
	h.next = mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		v, _ := r.Context().Value(visitKey{}).(*visit)
		if v == nil {
			return nil
		}
		return v.c.server
	}, &mcp.StreamableHTTPOptions{MaxRequestBodyBytes: o.MaxBodyBytes, DisableLocalhostProtection: true}) // ours is stricter
	g.mu.Lock()
	g.https = append(slices.DeleteFunc(g.https, (*HTTP).isClosed), h)
	g.mu.Unlock()
	return h
}

func (h *HTTP) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

type visitKey struct{}

// ServeHTTP implements http.Handler.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	switch {
	case !h.knownHost(r.Host):
		http.Error(w, "the name "+r.Host+" is not this server's; ask it by its address, or allow the name as an origin", http.StatusForbidden)
		return
	case origin != "" && !h.knownOrigin(origin):
		http.Error(w, "web pages of "+origin+" may not use this server; allow it as an origin", http.StatusForbidden)
		return
	}
	if origin != "" {
		h.allow(w.Header(), origin)
		if r.Method == http.MethodOptions { // asked before the token is sent
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if !h.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcp"`)
		http.Error(w, "the bearer token is missing or is not this server's", http.StatusUnauthorized)
		return
	}
	var sent posted
	if r.Method == http.MethodPost {
		var err error
		if sent, err = h.look(r); err != nil {
			refuse(w, err)
			return
		}
		if sent.bare && r.Header.Get(sessionHeader) == "" {
			early(w, sent.ids[0])
			return
		}
	}
	v, status, text := h.enter(r)
	if v == nil {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "60")
		}
		http.Error(w, text, status)
		return
	}
	if r.Method == http.MethodDelete {
		h.drop(v)
		<-v.gone
		w.WriteHeader(http.StatusNoContent)
		return
	}
	defer h.leave(v)
	if sent.drop {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	free, err := h.claim(r, v, sent.ids)
	if err != nil {
		refuse(w, err)
		return
	}
	defer free()
	h.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

// authorized compares tokens in constant time.
func (h *HTTP) authorized(r *http.Request) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(given))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1
}

// knownHost is false for a name that somebody else may have made to point here. An
// address cannot be.
func (h *HTTP) knownHost(host string) bool {
	name := hostname(host)
	if name == "localhost" || net.ParseIP(name) != nil {
		return true
	}
	return slices.ContainsFunc(h.opts.Origins, func(o string) bool {
		u, err := url.Parse(o)
		return err == nil && strings.EqualFold(u.Hostname(), name)
	})
}

// knownOrigin says whether a page may send requests: one of this machine, or one that is
// allowed.
func (h *HTTP) knownOrigin(origin string) bool {
	if slices.ContainsFunc(h.opts.Origins, func(o string) bool { return strings.EqualFold(strings.TrimSuffix(o, "/"), origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

func (h *HTTP) allow(header http.Header, origin string) {
	header.Set("Access-Control-Allow-Origin", origin)
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-Id")
	header.Set("Access-Control-Expose-Headers", sessionHeader)
}

// enter finds the session of a request, or makes one.
func (h *HTTP) enter(r *http.Request) (v *visit, status int, text string) {
	id := r.Header.Get(sessionHeader)
	if id != "" {
		h.mu.Lock()
		defer h.mu.Unlock()
		if v = h.visits[id]; v == nil {
			return nil, http.StatusNotFound, "there is no such session (any more); initialize anew"
		}
		v.come()
		return v, 0, ""
	}
	if r.Method != http.MethodPost {
		return nil, http.StatusBadRequest, "the header " + sessionHeader + " is missing; a session begins with a POST of initialize"
	}
	if !h.room() {
		return nil, http.StatusServiceUnavailable, "there are too many sessions; end some with DELETE, or try again later"
	}
	c, err := h.g.newClient()
	if err != nil {
		return nil, http.StatusServiceUnavailable, err.Error()
	}
	v = &visit{c: c, open: 1, gone: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		h.work.Go(c.close)
		return nil, http.StatusServiceUnavailable, ErrClosed.Error()
	}
	h.visits[c.id] = v
	return v, 0, ""
}

// room makes room for one more session, if need be by ending the one that has been idle
// for longest: clients that crash do not say goodbye.
func (h *HTTP) room() bool {
	h.mu.Lock()
	full := len(h.visits) >= h.g.opts.MaxClients
	h.mu.Unlock()
	return !full || h.dropIdle(time.Minute)
}

// makesRoom ends a session on an executor, and waits until it has ended.
func (h *HTTP) makesRoom() bool { return h.dropIdle(h.opts.Spare) }

// dropIdle ends the session that has been idle for longest, if it has been for a while.
func (h *HTTP) dropIdle(least time.Duration) bool {
	h.mu.Lock()
	var oldest *visit
	for _, v := range h.visits {
		if v.open == 0 && time.Since(v.since) > least && v.c.running.Load() == 0 && (oldest == nil || v.since.Before(oldest.since)) {
			oldest = v
		}
	}
	h.mu.Unlock()
	if oldest == nil {
		return false
	}
	h.g.log.Info("idle client makes room", zap.String("client", oldest.c.id))
	h.drop(oldest)
	<-oldest.gone
	return true
}

// come says that a request has begun. h.mu is held.
func (v *visit) come() {
	v.open++
	if v.timer != nil {
		v.timer.Stop()
		v.timer = nil
	}
}

// leave says that a request has ended.
func (h *HTTP) leave(v *visit) {
	if !v.c.initialized() { // what came first was no initialize
		h.drop(v)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.open--; v.open > 0 || h.visits[v.c.id] != v {
		return
	}
	limit := h.opts.Idle
	if v.c.running.Load() > 0 {
		limit = h.opts.Lost
	}
	v.since = time.Now()
	v.timer = time.AfterFunc(limit, func() {
		h.mu.Lock()
		idle := v.open == 0
		h.mu.Unlock()
		if idle {
			h.g.log.Info("client has been gone for too long", zap.String("client", v.c.id), zap.Duration("limit", limit))
			h.drop(v)
		}
	})
}

// drop ends a session; v.gone is closed when all of it has ended.
func (h *HTTP) drop(v *visit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.visits[v.c.id] != v {
		return
	}
	delete(h.visits, v.c.id)
	if v.timer != nil {
		v.timer.Stop()
	}
	h.work.Go(func() {
		defer close(v.gone)
		v.c.cancel() // the calls: the library waits for them
		for ss := range v.c.server.Sessions() {
			_ = ss.Close()
		}
		v.c.close()
	})
}

// Close ends all sessions and returns when they have ended. It may be called twice.
func (h *HTTP) Close() error {
	h.mu.Lock()
	h.closed = true
	var all []*visit
	for _, v := range h.visits {
		all = append(all, v)
	}
	h.mu.Unlock()
	for _, v := range all {
		h.drop(v)
	}
	h.work.Wait()
	return nil
}

// initialized says whether the client has begun a session.
func (c *client) initialized() bool {
	for ss := range c.server.Sessions() {
		if ss.InitializeParams() != nil {
			return true
		}
	}
	return false
}
