package rpc

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agent-executor/executor/protocol"
)

// AcceptOptions of Accept; zero fields are defaults.
type AcceptOptions struct {
	Subprotocols  []string // understood, preferred first (default executor.v1)
	MaxFrameBytes int      // largest message read (default 1 MiB)
	PingInterval  time.Duration
	DeadAfter     time.Duration
}

// Accept upgrades a request to a WebSocket. The caller has authenticated it. A
// client that offers no known subprotocol is closed with 4002 and the error wraps
// protocol.ErrUnsupportedProtocol; after any other error the HTTP answer is sent.
func Accept(w http.ResponseWriter, r *http.Request, o AcceptOptions) (Frames, error) {
	if len(o.Subprotocols) == 0 {
		o.Subprotocols = []string{protocol.Version1}
	}
	h := &hijacker{ResponseWriter: w}
	up := websocket.Upgrader{
		HandshakeTimeout: protocol.DefaultRequestTimeout,
		ReadBufferSize:   frameHeader,
		WriteBufferSize:  frameHeader,
		Subprotocols:     o.Subprotocols,
	}
	ws, err := up.Upgrade(h, r, nil)
	if err != nil {
		return nil, err
	}
	f := newWebSocket(ws, h.socket, false, newTransportOptions(o.MaxFrameBytes, o.PingInterval, o.DeadAfter))
	if ws.Subprotocol() == "" {
		f.refuse(protocol.CloseUnsupportedProtocol, "no subprotocol in common; this end speaks "+o.Subprotocols[0])
		return nil, fmt.Errorf("%w: the client offered %q", protocol.ErrUnsupportedProtocol, websocket.Subprotocols(r))
	}
	return f, nil
}

// hijacker puts a socket between gorilla and the connection it takes over.
type hijacker struct {
	http.ResponseWriter
	socket *socket
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.socket = newSocket(c)
	return h.socket, rw, nil
}
