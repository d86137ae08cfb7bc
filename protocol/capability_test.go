package protocol_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

func TestCapabilitiesHas(t *testing.T) {
	var caps protocol.Capabilities
	require.NoError(t, json.Unmarshal([]byte(`{
		"process": { "enabled" : true, "pty": true, "push": false, "buffer_bytes": 0, "package_install": null },
		"shell": {"enabled": false, "login": true},
		"fs": {},
		"chrome": true, "computer_use": false, "display": null,
		"tools": [], "note": "text", "odd": {"enabled": "no"}
	}`), &caps))
	for name, want := range map[string]bool{
		"process": true, "process.pty": true, "process.push": false, "process.nothing": false,
		"process.buffer_bytes": true, "process.package_install": false, "process.enabled": true,
		"shell": false, "shell.login": false, "fs": true, "fs.fuse": false,
		"chrome": true, "chrome.tabs": false, "computer_use": false, "display": false,
		"tools": true, "tools.x": false, "note": true, "odd": true, "absent": false, "absent.detail": false, "": false, ".": false,
	} {
		assert.Equal(t, want, caps.Has(name), "%q", name)
	}
	assert.False(t, protocol.Capabilities(nil).Has("process"))
	assert.False(t, protocol.Capabilities{"broken": json.RawMessage(`{"enabled`)}.Has("broken"))
}

func TestCapabilitiesSetAndGet(t *testing.T) {
	caps := protocol.Capabilities{}
	want := protocol.ProcessDetails{Enabled: true, PTY: true, BufferBytes: 1 << 20, MaxProcesses: 32}
	require.NoError(t, caps.Set(protocol.CapabilityProcess, want))
	var have protocol.ProcessDetails
	ok, err := caps.Get(protocol.CapabilityProcess, &have)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, want, have)

	ok, err = caps.Get("absent", &have)
	require.NoError(t, err)
	assert.False(t, ok)
	caps["null"] = json.RawMessage("null")
	ok, err = caps.Get("null", &have)
	require.NoError(t, err)
	assert.False(t, ok)
	caps["wrong"] = json.RawMessage(`[]`)
	_, err = caps.Get("wrong", &have)
	assert.ErrorContains(t, err, "capability wrong: ")
	assert.ErrorContains(t, caps.Set("unfit", make(chan int)), "capability unfit: ")
	assert.NotContains(t, caps, "unfit")
}

func TestCapabilitiesTools(t *testing.T) {
	caps := protocol.Capabilities{}
	tools, err := caps.Tools()
	require.NoError(t, err)
	assert.Nil(t, tools)
	want := []protocol.ToolInfo{{Name: "stat", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: protocol.Annotations{ReadOnly: true}}}
	require.NoError(t, caps.Set(protocol.CapabilityTools, want))
	tools, err = caps.Tools()
	require.NoError(t, err)
	assert.Equal(t, want, tools)
	caps[protocol.CapabilityTools] = json.RawMessage(`{}`)
	_, err = caps.Tools()
	assert.Error(t, err)
}

// Names a peer has not heard of go through unchanged.
func TestCapabilitiesKeepUnknownNames(t *testing.T) {
	const text = `{"acme.laser":{"watts":40,"modes":["cut","mark"]}}`
	var caps protocol.Capabilities
	require.NoError(t, json.Unmarshal([]byte(text), &caps))
	raw, err := json.Marshal(caps)
	require.NoError(t, err)
	assert.JSONEq(t, text, string(raw))
}

func TestCapabilityNames(t *testing.T) {
	names := slices.Collect(maps.Values(constants(t, "capability.go", "Capability")))
	assert.ElementsMatch(t, slices.Collect(maps.Keys(capabilityDetails())), names)
	// Every gate of a method is one of them, or a detail of one.
	details := capabilityDetails()
	for _, s := range protocol.Specs() {
		if s.Capability == "" {
			continue
		}
		name, detail := cut(s.Capability)
		require.Contains(t, details, name, s.Name)
		if detail != "" {
			assert.Contains(t, members(details[name]), detail, s.Name)
		}
	}
}

func cut(gate string) (name, detail string) {
	name, detail, _ = strings.Cut(gate, ".")
	return name, detail
}
