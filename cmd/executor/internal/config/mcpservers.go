package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/mcp"
	"github.com/agent-executor/executor/protocol"
)

// MCPServers reads the setting mcp-servers: texts that are each a JSON object or a list of them. What is wrong is
// said of all servers.
func MCPServers(texts []string) ([]protocol.MCPServer, error) {
	var servers []protocol.MCPServer
	var problems []error
	seen := map[string]bool{}
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			text = "[" + text + "]"
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		var list []json.RawMessage
		if err := decoder.Decode(&list); err != nil {
			return nil, fmt.Errorf(`not JSON: %s; want {"server_key": "files", "transport": {"command": "npx", "args": ["-y", "name"]}}`, strings.TrimPrefix(err.Error(), "json: "))
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("something follows the JSON")
		}
		for _, raw := range list {
			s, err := mcpServer(raw)
			if err == nil {
				err = mcp.CheckServer(s)
			}
			if err == nil && seen[s.ServerKey] {
				err = fmt.Errorf("server_key: %q is there twice; choose another", s.ServerKey)
			}
			if seen[s.ServerKey] = true; err != nil {
				problems = append(problems, &elementError{len(servers), "server", err})
			}
			servers = append(servers, s)
		}
	}
	switch len(problems) {
	case 0:
		return servers, nil
	case 1:
		return nil, problems[0]
	}
	return nil, errors.Join(problems...)
}

// mcpServer reads one. The type follows from what there is.
func mcpServer(raw json.RawMessage) (s protocol.MCPServer, err error) {
	var transport json.RawMessage
	err = readMembers(raw, "", []member{{"server_key", &s.ServerKey}, {"connection_origin", &s.ConnectionOrigin}, {"transport", &transport}})
	if err != nil {
		return s, err
	}
	if transport == nil {
		return s, errors.New("transport: it is missing; want a mapping with command and args, or with url")
	}
	t := &s.Transport
	err = readMembers(transport, "transport.", []member{{"type", &t.Type}, {"command", &t.Command}, {"args", &t.Args}, {"cwd", &t.Cwd}, {"env", &t.Env},
		{"secret_env", &t.SecretEnv}, {"command_sha256", &t.CommandSHA256}, {"url", &t.URL}, {"timeout_ms", &t.TimeoutMS}})
	switch {
	case t.Type != "":
	case t.URL != "" && t.Command == "":
		t.Type = protocol.TransportHTTP
	default:
		t.Type = protocol.TransportStdio
	}
	return s, err
}

// member is one member of an object, and what takes it.
type member struct {
	name string
	to   any
}

// readMembers reads an object that has no others than these.
func readMembers(raw json.RawMessage, within string, known []member) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		if within == "" {
			return errors.New("want a mapping with server_key and transport")
		}
		return fmt.Errorf("%s: want a mapping with command and args, or with url", strings.TrimSuffix(within, "."))
	}
	names := make([]string, len(known))
	for i, m := range known {
		names[i] = m.name
		value, ok := members[m.name]
		if delete(members, m.name); !ok {
			continue
		}
		if err := json.Unmarshal(value, m.to); err != nil {
			return fmt.Errorf("%s%s: want %s", within, m.name, wantOf(m.to))
		}
	}
	for name := range members {
		if near := capabilities.Nearest(name, names); near != "" {
			return fmt.Errorf("%sunknown key %q; did you mean %q?", spaced(within), name, near)
		}
		return fmt.Errorf("%sunknown key %q; there are %s", spaced(within), name, strings.Join(names, ", "))
	}
	return nil
}

func spaced(within string) string {
	if within == "" {
		return ""
	}
	return strings.TrimSuffix(within, ".") + ": "
}

func wantOf(to any) string {
	switch to.(type) {
	case *[]string:
		return "a list of texts"
	case *map[string]string:
		return "a mapping of texts; write numbers and true or false in quotes"
	case *int64:
		return "a number"
	}
	return "a text"
}

func refuseMCPServers(s *Settings) error {
	_, err := MCPServers(s.MCPServers)
	return err
}

// hasMCPSecrets says whether there are secrets in the setting.
func hasMCPSecrets(s *Settings) bool {
	list, _ := MCPServers(s.MCPServers) // what is wrong with it is said elsewhere
	return slices.ContainsFunc(list, func(m protocol.MCPServer) bool { return len(m.Transport.SecretEnv) > 0 })
}

// MCPSecrets are the secrets of the user's own servers.
func MCPSecrets(s *Settings) (values []string) {
	list, _ := MCPServers(s.MCPServers) // it was checked
	for _, m := range list {
		for _, value := range m.Transport.SecretEnv {
			values = append(values, value)
		}
	}
	return values
}
