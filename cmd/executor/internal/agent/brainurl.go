package agent

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

// brainOf is the one brain of settings that forEachBrain has split; empty when the
// token exchange says where it is. What is wrong with a URL is said without the URL
// where it could have a password in it.
func brainOf(s *config.Settings) (*url.URL, error) {
	if len(s.Brain) == 0 {
		if s.BaseURL != "" { // which says where
			return &url.URL{}, nil
		}
		return nil, cli.Usagef("no brain to connect to; give one with --brain wss://host/executor, EXECUTOR_BRAIN or the key brain")
	}
	u, err := url.Parse(s.Brain[0])
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, cli.Usagef("brain: not a URL: %w; want one like wss://host/executor", err)
	}
	if u.User != nil {
		return nil, cli.Usagef("brain %s: a user name or password in it is not used; the credential is given by --token-file", config.RedactURL(s.Brain[0]))
	}
	if (u.Scheme == "ws" || u.Scheme == "wss") && u.Host == "" {
		return nil, cli.Usagef("brain %q: the host is missing; want one like wss://host/executor", u.Redacted())
	}
	return u, nil
}

// proxyOf is the proxy that the environment names for the brain, without its
// credentials. A bad one is found now, not in every attempt's log line.
func proxyOf(brain *url.URL, hide *cli.Redactor) (string, error) {
	u := *brain
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	default:
		return "", nil
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &u})
	if err != nil { // its text has the whole URL in it
		return "", cli.Usagef("the proxy in HTTPS_PROXY or HTTP_PROXY is not a URL; correct or unset it")
	}
	if proxy == nil {
		return "", nil
	}
	if password, ok := proxy.User.Password(); ok {
		hide.Add(password)
		hide.Add(proxy.User.String())
	}
	return proxy.Redacted(), nil
}
