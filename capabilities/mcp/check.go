package mcp

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// maxKey is the length of a server_key that is still a name.
const maxKey = 128

// CheckServers says what is wrong with the user's own servers, if anything: of the first that something is
// wrong with, by its place in the list.
func CheckServers(list []protocol.MCPServer) error {
	seen := map[string]bool{}
	for i, s := range list {
		if err := CheckServer(s); err != nil {
			return fmt.Errorf("server %d: %w", i+1, err)
		}
		if seen[s.ServerKey] {
			return fmt.Errorf("server %d: server_key: %s is there twice; choose another", i+1, capabilities.QuoteName(s.ServerKey))
		}
		seen[s.ServerKey] = true
	}
	return nil
}

// CheckServer is CheckServers for one.
func CheckServer(s protocol.MCPServer) error {
	if s.ConnectionOrigin != "" && s.ConnectionOrigin != protocol.OriginEnvironment {
		return fmt.Errorf("connection_origin: %s: the servers of this machine are connected from here; leave it out", capabilities.QuoteName(s.ConnectionOrigin))
	}
	if field, problem := check(s); field != "" {
		return fmt.Errorf("%s: %s", field, problem)
	}
	return nil
}

// check names what is wrong with a server: a member and why, or nothing.
func check(s protocol.MCPServer) (field, problem string) {
	t := s.Transport
	switch {
	case s.ServerKey == "":
		return "server_key", "it is empty; give the server a name"
	case len(s.ServerKey) > maxKey:
		return "server_key", fmt.Sprintf("it has %d bytes; want at most %d", len(s.ServerKey), maxKey)
	case t.TimeoutMS < 0:
		return "transport.timeout_ms", fmt.Sprintf("%d: want 0 or more", t.TimeoutMS)
	}
	switch t.Type {
	case protocol.TransportStdio:
		return checkProgram(t)
	case protocol.TransportHTTP:
		return checkURL(t)
	case "":
		return "transport.type", "it is missing; want stdio or http"
	}
	if near := capabilities.Nearest(t.Type, []string{protocol.TransportStdio, protocol.TransportHTTP}); near != "" {
		return "transport.type", fmt.Sprintf("%q; did you mean %q?", t.Type, near)
	}
	return "transport.type", fmt.Sprintf("%s: want stdio or http", capabilities.QuoteName(clip(t.Type)))
}

func checkProgram(t protocol.MCPTransport) (field, problem string) {
	const nul = "it contains a NUL character, which no command line can"
	if t.Command == "" {
		return "transport.command", "it is missing; name the program"
	}
	if strings.ContainsRune(t.Command, 0) {
		return "transport.command", nul
	}
	if slices.ContainsFunc(t.Args, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		return "transport.args", nul
	}
	if t.URL != "" {
		return "transport.url", "a server of type stdio has none; leave it out, or want type http"
	}
	for name, env := range map[string]map[string]string{"transport.env": t.Env, "transport.secret_env": t.SecretEnv} {
		for variable, value := range env {
			if variable == "" || strings.ContainsAny(variable, "=\x00") || strings.ContainsRune(value, 0) {
				return name, fmt.Sprintf("%s cannot be an environment variable", capabilities.QuoteName(clip(variable)))
			}
		}
	}
	if t.CommandSHA256 != "" {
		if sum, err := hex.DecodeString(t.CommandSHA256); err != nil || len(sum) != 32 {
			return "transport.command_sha256", "want 64 hexadecimal digits"
		}
	}
	return "", ""
}

func checkURL(t protocol.MCPTransport) (field, problem string) {
	if t.URL == "" {
		return "transport.url", "it is missing; want one like http://127.0.0.1:8000/mcp"
	}
	u, err := url.Parse(t.URL)
	if err != nil { // whose text would repeat a password
		return "transport.url", "it is no URL; want one like http://127.0.0.1:8000/mcp"
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "transport.url", "want one like http://127.0.0.1:8000/mcp, or https"
	}
	for _, x := range []struct {
		is   bool
		name string
	}{{t.Command != "", "command"}, {len(t.Args) > 0, "args"}, {len(t.SecretEnv) > 0, "secret_env"}, {len(t.Env) > 0, "env"}, {t.Cwd != "", "cwd"}, {t.CommandSHA256 != "", "command_sha256"}} {
		if x.is {
			return "transport." + x.name, "a server of type http has none; leave it out, or want type stdio"
		}
	}
	return "", ""
}

// clip keeps a peer's text short in a message.
func clip(s string) string { return clipTo(s, 100) }

// clipTo is at most n bytes of a text.
func clipTo(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:max(0, n-len("…"))], "") + "…"
	}
	return strings.ToValidUTF8(s, "?")
}
