package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Capabilities is what an executor advertises in executor.register: one member
// per capability, with its details (spec section 12). Only what is registered
// and works on this machine now is in it. A map, so that capabilities nobody
// here has heard of keep their place; Get gives typed access.
type Capabilities map[string]json.RawMessage

// Names of the members the protocol defines.
const (
	CapabilityAgent        = "agent"
	CapabilityArtifacts    = "artifacts"
	CapabilityChrome       = "chrome"
	CapabilityComputerUse  = "computer_use"
	CapabilityDisplay      = "display"
	CapabilityFiles        = "files"
	CapabilityFS           = "fs"
	CapabilityMCP          = "mcp"
	CapabilityProcess      = "process"
	CapabilitySessionFiles = "session_files"
	CapabilityShell        = "shell"
	CapabilitySkills       = "skills"
	CapabilityTerminal     = "terminal"
	CapabilityWorkspace    = "workspace"
	CapabilityScripts      = "scripts"
	CapabilityTools        = "tools"
	CapabilityBinaryFrames = "binary_frames"
	CapabilityMessageParts = "message_parts"
)

// The details of each capability.
type (
	AgentDetails struct {
		Enabled          bool            `json:"enabled"`
		MaxSessions      int             `json:"max_sessions,omitempty"`
		Models           []string        `json:"models,omitempty"`
		PermissionModes  []string        `json:"permission_modes,omitempty"`
		InteractionKinds []string        `json:"interaction_kinds,omitempty"`
		FileInputs       bool            `json:"file_inputs,omitempty"`
		TurnResume       bool            `json:"turn_resume,omitempty"`
		Harness          json.RawMessage `json:"harness,omitempty"`
	}
	ArtifactsDetails struct {
		Upload   bool  `json:"upload"`
		MaxBytes int64 `json:"max_bytes,omitempty"`
	}
	DisplayDetails struct {
		Desktop bool `json:"desktop"`
		RFB     bool `json:"rfb"`
	}
	FilesDetails struct {
		Enabled    bool     `json:"enabled"`
		ReadRoots  []string `json:"read_roots"`
		WriteRoots []string `json:"write_roots"`
	}
	FSDetails struct {
		FUSE  bool     `json:"fuse"`
		Views []string `json:"views,omitempty"`
	}
	MCPDetails struct {
		Stdio      bool `json:"stdio"`
		HTTP       bool `json:"http"`
		MaxServers int  `json:"max_servers,omitempty"`
		SecretEnv  bool `json:"secret_env,omitempty"`
		// Servers are the keys of the machine's own servers, which every session has.
		Servers []string `json:"servers,omitempty"`
	}
	ProcessDetails struct {
		Enabled        bool  `json:"enabled"`
		PTY            bool  `json:"pty"`
		BufferBytes    int64 `json:"buffer_bytes"`
		MaxProcesses   int   `json:"max_processes"`
		FileTransfer   bool  `json:"file_transfer"`
		GitCredentials bool  `json:"git_credentials"`
		PackageInstall bool  `json:"package_install"`
		Push           bool  `json:"push,omitempty"`
	}
	SessionFilesDetails struct {
		Root string `json:"root"`
	}
	ShellDetails struct {
		Enabled bool `json:"enabled"`
	}
	SkillsDetails struct {
		Install bool `json:"install"`
	}
	TerminalDetails struct {
		Enabled     bool     `json:"enabled"`
		Kinds       []string `json:"kinds,omitempty"`
		MaxSessions int      `json:"max_sessions,omitempty"`
	}
	WorkspaceDetails struct {
		Backup bool `json:"backup"`
	}
	ScriptsDetails struct {
		Enabled  bool     `json:"enabled"`
		Runtimes []string `json:"runtimes,omitempty"`
	}
)

// Set advertises name with details, which must marshal to JSON.
func (c Capabilities) Set(name string, details any) error {
	raw, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("capability %s: %w", name, err)
	}
	c[name] = raw
	return nil
}

// Get reads the details of name; false when it is absent or null.
func (c Capabilities) Get(name string, details any) (bool, error) {
	raw, ok := c[name]
	if !ok || string(raw) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(raw, details); err != nil {
		return false, fmt.Errorf("capability %s: %w", name, err)
	}
	return true, nil
}

// Has reports whether name is advertised: "process", or one of its details,
// "process.pty". Present counts as advertised, unless it is false, null or has
// `enabled: false`.
func (c Capabilities) Has(name string) bool {
	name, detail, dotted := strings.Cut(name, ".")
	raw := bytes.TrimSpace(c[name])
	switch string(raw) {
	case "", "null", "false":
		return false
	}
	if raw[0] != '{' {
		return !dotted
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || string(members["enabled"]) == "false" {
		return false
	}
	if dotted {
		v := string(members[detail])
		return v != "" && v != "null" && v != "false"
	}
	return true
}

// Tools returns the advertised tools; nil when there is no such list.
func (c Capabilities) Tools() ([]ToolInfo, error) {
	var tools []ToolInfo
	_, err := c.Get(CapabilityTools, &tools)
	return tools, err
}
