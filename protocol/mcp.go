package protocol

// MCP has no methods of its own on the control channel: a session's servers are
// named in session.assign, and each gets a channel (spec section 8).

// Values of MCPServer.ConnectionOrigin and MCPTransport.Type.
const (
	OriginEnvironment = "environment"
	OriginService     = "service"
	TransportStdio    = "stdio"
	TransportHTTP     = "http"
)

type MCPServer struct {
	ServerKey        string       `json:"server_key"`
	ConnectionOrigin string       `json:"connection_origin,omitempty"`
	Transport        MCPTransport `json:"transport"`
}

type MCPTransport struct {
	Type          string            `json:"type"`
	Command       string            `json:"command,omitempty"`
	Args          []string          `json:"args,omitempty"`
	Cwd           string            `json:"cwd,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	SecretEnv     map[string]string `json:"secret_env,omitempty"`
	CommandSHA256 string            `json:"command_sha256,omitempty"`
	URL           string            `json:"url,omitempty"`
	TimeoutMS     int64             `json:"timeout_ms,omitempty"`
}

// MCPState is how one server of a session came up.
type MCPState struct {
	State string     `json:"state"` // ready or failed
	Error *ToolError `json:"error,omitempty"`
}

// Kinds of channels (spec section 1.5).
const (
	ChannelControl  = "control"
	ChannelMCP      = "mcp"
	ChannelTerminal = "terminal"
)

// ChannelTarget names a connection beside the control channel.
type ChannelTarget struct {
	Channel   string // ChannelMCP or ChannelTerminal
	SessionID string
	ServerKey string
	// Incarnation tells one run of an MCP server from the next.
	Incarnation string
	TerminalID  string
	StreamID    string
	URL         string // another host than the brain's own; used as it is
	Ticket      string // its bearer token
}
