package agent

import (
	"context"
	"crypto/tls"
	"net/url"

	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/executor"
)

const (
	environmentKey     = "environment key"
	environmentKeyFlag = "--environment-key-file"
)

// exchangeSource is tokenSource for tokens that are got for an environment key. What is
// wrong with the file now is an error, what others could read a warning.
func exchangeSource(s *config.Settings, tls func() (*tls.Config, error), hide *cli.Redactor) (source func(context.Context) (executor.Credential, error), key, warning string, err error) {
	switch {
	case s.TokenFile != "" || s.TokenCommand != "":
		return nil, "", "", cli.Usagef("base_url with environment_key_file gets the token; leave token_file and token_command out")
	case s.BaseURL == "":
		return nil, "", "", cli.Usagef("environment_key_file is given without base_url; give the URL of the brain's API with --base-url https://host")
	case s.EnvironmentKeyFile == "":
		return nil, "", "", cli.Usagef("base_url is given without environment_key_file; give the file with the key with %s FILE", environmentKeyFlag)
	case s.Environment == "":
		return nil, "", "", cli.Usagef("base_url is given without environment; give the ID of the environment with --environment ID")
	}
	read := func() (string, error) {
		key, err := cli.ReadSecret(s.EnvironmentKeyFile, environmentKey, environmentKeyFlag)
		hide.Add(key)
		return key, err
	}
	if key, err = read(); err != nil {
		return nil, "", "", cli.WithCode(cli.ExitUsage, err)
	}
	exchange, err := executor.NewExchange(executor.ExchangeOptions{
		BaseURL: s.BaseURL, Insecure: s.Insecure, EnvironmentID: s.Environment, Name: s.Name, TLSSource: tls, Timeout: s.RequestTimeout,
		Key: func(context.Context) (string, error) { return read() },
	})
	if err != nil {
		return nil, "", "", cli.WithCode(cli.ExitUsage, err)
	}
	if base, err := url.Parse(s.BaseURL); err == nil { // the proxy's password must not be logged either
		base.Scheme = map[string]string{"http": "ws", "https": "wss"}[base.Scheme]
		if _, err := proxyOf(base, hide); err != nil {
			return nil, "", "", err
		}
	}
	return func(ctx context.Context) (executor.Credential, error) {
		c, err := exchange.Credential(ctx)
		hide.Add(c.Token)
		return c, err
	}, key, cli.SecretFileWarning(s.EnvironmentKeyFile, environmentKey), nil
}
