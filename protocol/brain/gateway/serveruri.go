package gateway

import (
	"net/url"
	"strings"
)

// A server's resource has the URI that the server gives it, except where that would say
// something of the machine or of another server: "file:" is always the executor's own,
// under its roots. Such a resource is shown as mcp+KEY:URI, for example
// mcp+notes:file:///home/ada/a.txt, and read from its server under that.

// serverScheme begins the scheme of such URIs.
const serverScheme = "mcp+"

// shownURI is the URI for clients of what server key calls uri. prefix is that of its
// executor, where there are several.
func shownURI(prefix, key, uri string) string {
	scheme, _, found := strings.Cut(uri, ":")
	scheme = strings.ToLower(strings.TrimSpace(scheme))
	if u, err := url.Parse(uri); err == nil && found && u.Scheme != "" && scheme != "file" && !strings.HasPrefix(scheme, serverScheme) {
		return uri
	}
	mark := serverScheme
	if prefix != "" {
		mark += schemePart(prefix) + "+"
	}
	return mark + schemePart(key) + ":" + uri
}

// schemePart is name with only what a scheme takes. Where something was lost, a sum of
// the whole keeps it apart from others.
func schemePart(name string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '-'
	}, name)
	if safe != name || safe == "" {
		safe += "-" + shortSum(name)
	}
	return safe
}
