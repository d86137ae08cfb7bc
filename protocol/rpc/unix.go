package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// unixURL turns unix:///path/to.sock?query into the WebSocket URL for the same
// handshake over that socket, and sets how it is dialled. Other URLs are only
// checked.
func unixURL(raw string, o *DialOptions) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("brain URL: not a URL") // its own error would repeat a password
	}
	switch u.Scheme {
	case "ws", "wss":
		if u.Host == "" {
			return "", fmt.Errorf("brain URL %q: a host is missing", u.Redacted())
		}
		return raw, nil
	case "unix":
		path := u.Path
		if path == "" {
			path = u.Opaque
		}
		if u.Host != "" || !strings.HasPrefix(path, "/") {
			return "", fmt.Errorf("brain URL %q: want unix:///absolute/path", u.Redacted())
		}
		if len(path) > MaxSocketPath {
			return "", fmt.Errorf("brain URL %q: the path is longer than the %d bytes a socket's may have; use a shorter one", u.Redacted(), MaxSocketPath)
		}
		o.NetDial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		o.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
		local := url.URL{Scheme: "ws", Host: "localhost", Path: "/executor", RawQuery: u.RawQuery}
		return local.String(), nil
	default:
		return "", fmt.Errorf("brain URL %q: the scheme must be ws, wss or unix", u.Redacted())
	}
}
