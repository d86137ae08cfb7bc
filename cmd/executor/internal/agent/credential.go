package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities/standard"
	"github.com/agent-executor/executor/cmd/executor/internal/config"
	"github.com/agent-executor/executor/cmd/internal/cli"
)

const (
	tokenCommandTimeout = 30 * time.Second
	maxCommandOutput    = 64 << 10
)

// tokenSource returns where the credential comes from: it is asked at every dial.
// What is wrong with a file now is an error, what others could read a warning. With
// neither a file nor a command, systemd's credential is taken when there is one, and
// else none is sent.
func tokenSource(s *config.Settings, hide *cli.Redactor) (source func(context.Context) (string, error), first, warning string, err error) {
	if s.Exchanges() {
		return nil, "", "", nil
	}
	if s.TokenFile != "" && s.TokenCommand != "" {
		return nil, "", "", cli.Usagef("token_file and token_command are both given; leave one out")
	}
	if s.TokenCommand != "" {
		return func(ctx context.Context) (string, error) {
			token, err := runTokenCommand(ctx, s.Children, s.TokenCommand)
			hide.Add(token)
			return token, err
		}, "", "", nil
	}
	path := s.TokenFile
	if path == "" {
		path = systemdCredential()
	}
	if path == "" {
		return nil, "", "no token is configured, so none is sent; give the brain's with --token-file FILE", nil
	}
	first, err = cli.ReadToken(path)
	if err != nil {
		return nil, "", "", cli.WithCode(cli.ExitUsage, err)
	}
	hide.Add(first)
	return func(context.Context) (string, error) {
		token, err := cli.ReadToken(path)
		hide.Add(token)
		return token, err
	}, first, cli.TokenFileWarning(path), nil
}

// systemdCredential is the file of LoadCredential=token:…, when there is one.
func systemdCredential() string {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return ""
	}
	path := filepath.Join(dir, "token")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// runTokenCommand runs the command with the shell, in the executor's own environment,
// and takes what it prints. When the time is over it ends with its children.
func runTokenCommand(ctx context.Context, children *standard.Children, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenCommandTimeout)
	defer cancel()
	shell := []string{"sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c", command}
	}
	out, err := children.RunOwn(ctx, shell, maxCommandOutput)
	switch {
	case err != nil:
		return "", fmt.Errorf("token command: %w", err)
	case out.More:
		return "", errors.New("token command printed more than 64 KiB, so it is no token; let it print only the token")
	case out.Exit.Code != 0 || out.Exit.Lost:
		err := fmt.Errorf("token command: exit status %d", out.Exit.Code)
		if out.Exit.Signal != "" {
			err = fmt.Errorf("token command: ended by %s", out.Exit.Signal)
		}
		said, _, _ := strings.Cut(strings.TrimSpace(string(out.Stderr)), "\n")
		if said != "" {
			err = fmt.Errorf("%w: %s", err, cli.Line(said[:min(len(said), 200)]))
		}
		return "", err
	}
	token, err := cli.CheckToken(out.Stdout)
	if err != nil {
		return "", fmt.Errorf("what the token command printed %w", err)
	}
	return token, nil
}

// tlsConfig trusts the system's authorities and those of a file; nil = only the
// system's.
func tlsConfig(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("ca-file %s does not exist", file)
	}
	if err != nil {
		return nil, cli.Usagef("ca-file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // there are none here
	}
	if !roots.AppendCertsFromPEM(raw) {
		return nil, cli.Usagef("ca-file %s has no certificate in it; want PEM, with -----BEGIN CERTIFICATE-----", file)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
