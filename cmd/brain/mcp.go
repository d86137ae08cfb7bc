package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

func mcpCommand() *cobra.Command {
	var q mcpListenRequest
	var tokenFile string
	var idle time.Duration
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Give MCP clients the tools of executors",
		Long: `Give MCP clients the tools of executors.

Without --listen this is an MCP server on standard input and output, to be started by an MCP
client; "brain serve" has to run. Each client has a session of its own on the executor, which
ends with it. With several executors the tools are named NAME__TOOL.

With --listen it is an MCP server over streamable HTTP, at /mcp, until it is told to stop.
Clients send the token of --token-file as "Authorization: Bearer TOKEN".`,
		Example: "  brain mcp\n  brain mcp --executor laptop\n  brain mcp --listen 127.0.0.1:7071",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := stateDir(cmd)
			if err != nil {
				return err
			}
			if err := checkOrigins(q.Origins); err != nil {
				return err
			}
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			if q.Addr == "" {
				if tokenFile != "" || len(q.Origins) > 0 {
					return cli.Usagef("--token-file and --allow-origin are for --listen; standard input and output need no token")
				}
				return mcpPipe(ctx, newClient(dir), q.Executor, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if tokenFile == "" {
				tokenFile = filepath.Join(dir, "mcp-token")
			}
			q.IdleMS = idle.Milliseconds()
			return mcpListen(ctx, newClient(dir), q, tokenFile, cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&q.Executor, "executor", "", "`ID` or name of the executor (default: all that are connected)")
	f.StringVar(&q.Addr, "listen", "", "`ADDR` to serve streamable HTTP at, at /mcp, like 127.0.0.1:7071 (default: standard input and output)")
	f.StringVar(&tokenFile, "token-file", "", "`FILE` with the token clients have to send, at least 16 characters; it is made when there is none (default: mcp-token in the state directory)")
	f.StringArrayVar(&q.Origins, "allow-origin", nil, "`URL` of web pages that may use it, like https://host, beside those of this machine; its host is a name of this server too; may be repeated")
	f.DurationVar(&idle, "idle", 30*time.Minute, "`TIME` without a request after which a client's session ends")
	return c
}

// mcpPipe carries what an MCP client says to the brain, and back, until either ends. After
// the end of the input or of ctx it does not wait for a client that does not read.
func mcpPipe(ctx context.Context, client *cli.Client, executor string, in io.Reader, out io.Writer) error {
	w := newPipeWatch(in, out)
	answer, err := client.Stream(ctx, http.MethodPost, "/v1/mcp?executor="+url.QueryEscape(executor), io.NopCloser(w.input()))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer answer.Close()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, answer)
		copied <- err
	}()
	err = w.wait(ctx, copied)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case errors.Is(err, errNotRead):
		return err
	case errors.Is(err, syscall.EPIPE):
		return errNotRead
	}
	return fmt.Errorf("the brain is gone: %w; start brain serve, and this server again", err)
}

// mcpListen has the brain listen until ctx is done.
func mcpListen(ctx context.Context, client *cli.Client, q mcpListenRequest, tokenFile string, out io.Writer) error {
	if _, _, err := net.SplitHostPort(q.Addr); err != nil {
		return cli.Usagef("--listen %q: want an address with a port, like 127.0.0.1:7071", q.Addr)
	}
	if err := client.Do(ctx, http.MethodGet, "/v1/executors", nil, nil); err != nil { // before a token is made
		return err
	}
	token, made, err := cli.EnsureToken(tokenFile)
	if err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	q.Token = token
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	answer, err := client.Stream(ctx, http.MethodPost, "/v1/mcp/listen", bytes.NewReader(body))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer answer.Close()
	d := json.NewDecoder(answer)
	var first mcpListenAnswer
	if err := d.Decode(&first); err != nil {
		return fmt.Errorf("the brain's answer: %w", err)
	}
	what := "token file:"
	if made {
		what = "token file, made now:"
	}
	if warning := cli.TokenFileWarning(tokenFile); warning != "" {
		fmt.Fprintln(out, warning)
	}
	fmt.Fprintf(out, "MCP over streamable HTTP at http://%s%s\n%s %s\nclients send: Authorization: Bearer, and the token\n", first.Addr, mcpPath, what, tokenFile)
	err = d.Decode(new(any)) // until it ends
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the brain is gone, and this server with it (%w); start brain serve, and this server again", err)
}
