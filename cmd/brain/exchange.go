package main

import (
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol/brain"
)

// exchange sets up the exchange of the environment key for tokens that end, when it is
// asked for.
func (s *server) exchange(o *serveOptions, hide *cli.Redactor) error {
	if o.environmentKeyFile == "" {
		return nil
	}
	if o.tokenTTL <= 0 {
		return cli.Usagef("--token-ttl %v: want more than 0", o.tokenTTL)
	}
	key, made, err := cli.EnsureSecret(o.environmentKeyFile, "environment key", "--environment-key-file")
	if err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	hide.Add(key)
	if made {
		s.log.Info("environment key file made", zap.String("file", o.environmentKeyFile))
	}
	if warning := cli.SecretFileWarning(o.environmentKeyFile, "environment key"); warning != "" {
		s.log.Warn(warning)
	}
	s.issuer, err = brain.NewIssuer(brain.IssuerOptions{Authorize: brain.SharedKey(key), TTL: o.tokenTTL, Logger: s.log.Named("issuer")})
	return err
}
