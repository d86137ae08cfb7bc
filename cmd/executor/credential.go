package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

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
func tokenSource(s *settings, hide *cli.Redactor) (source func(context.Context) (string, error), first, warning string, err error) {
	if s.exchanges() {
		return nil, "", "", nil
	}
	if s.TokenFile != "" && s.TokenCommand != "" {
		return nil, "", "", cli.Usagef("token_file and token_command are both given; leave one out")
	}
	if s.TokenCommand != "" {
		return func(ctx context.Context) (string, error) {
			token, err := runTokenCommand(ctx, s.TokenCommand)
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
func runTokenCommand(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenCommandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	if runtime.GOOS == "windows" {
		cmd = exec.CommandContext(ctx, "cmd", "/c", command)
	}
	stdout, stderr := capped{full: cancel}, capped{}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	endWithChildren(cmd)
	cmd.WaitDelay = time.Second // for a child that keeps the pipes
	err := cmd.Run()
	if stdout.more {
		return "", errors.New("token command printed more than 64 KiB, so it is no token; let it print only the token")
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("token command: %w", ctx.Err())
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.kept.String()), "\n")
		if said != "" {
			return "", fmt.Errorf("token command: %w: %s", err, cli.Line(said[:min(len(said), 200)]))
		}
		return "", fmt.Errorf("token command: %w", err)
	}
	token, err := cli.CheckToken(stdout.kept.Bytes())
	if err != nil {
		return "", fmt.Errorf("what the token command printed %w", err)
	}
	return token, nil
}

// capped keeps the beginning of what a command prints. The buffer is no embedded one:
// its ReadFrom would take everything.
type capped struct {
	kept bytes.Buffer
	full func() // called, if any, when there is more than is kept
	more bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := maxCommandOutput - c.kept.Len()
	_, _ = c.kept.Write(p[:min(len(p), room)])
	if len(p) > room {
		c.more = true
		if c.full != nil {
			c.full()
		}
	}
	return len(p), nil
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
