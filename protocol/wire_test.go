package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// The golden messages, one file per method; other implementations may read them too.
const wireDir = "../testdata/wire"

// method is one row of the protocol with its types, for tests that go over all.
type method struct {
	protocol.Spec
	params, result reflect.Type // result is nil for a notification
	decode         func(json.RawMessage) (any, error)
}

func request[P, R any](m protocol.Method[P, R]) method {
	return method{m.Spec, reflect.TypeFor[P](), reflect.TypeFor[R](), decodeAny[P]}
}

func notification[P any](n protocol.Notification[P]) method {
	return method{n.Spec, reflect.TypeFor[P](), nil, decodeAny[P]}
}

func decodeAny[P any](raw json.RawMessage) (any, error) { return protocol.DecodeParams[P](raw, nil) }

func methods() []method {
	return []method{
		request(protocol.ExecutorRegister),
		request(protocol.ExecutorHeartbeat),
		request(protocol.ExecutorTokenRefresh),
		notification(protocol.ExecutorCapabilitiesUpdate),
		request(protocol.ExecutorDrain),
		notification(protocol.ExecutorClose),
		request(protocol.SessionAssign),
		request(protocol.SessionReady),
		notification(protocol.SessionStatus),
		request(protocol.SessionStop),
		request(protocol.SessionEnded),
		request(protocol.SessionClose),
		request(protocol.SessionEvent),
		notification(protocol.SessionEventDelta),
		request(protocol.SessionWake),
		request(protocol.ToolCall),
		request(protocol.ToolCancel),
		notification(protocol.ToolProgress),
		request(protocol.ToolResult),
		request(protocol.ProcessStart),
		request(protocol.ProcessRead),
		request(protocol.ProcessWrite),
		request(protocol.ProcessInterrupt),
		request(protocol.ProcessTerminate),
		request(protocol.ProcessList),
		notification(protocol.ProcessStatus),
		request(protocol.ProcessResize),
		request(protocol.ProcessSubscribe),
		notification(protocol.ProcessOutput),
		notification(protocol.ProcessAck),
		request(protocol.TerminalOpen),
		request(protocol.TerminalAttach),
		request(protocol.TerminalClose),
		request(protocol.TurnStart),
		request(protocol.TurnInput),
		request(protocol.TurnCancel),
		request(protocol.InteractionRequest),
		request(protocol.InteractionResponse),
		request(protocol.InteractionCancel),
		request(protocol.SkillInstall),
		request(protocol.WorkspaceBackup),
		request(protocol.FSMount),
		request(protocol.FSUnmount),
	}
}

func TestTestsKnowEveryMethod(t *testing.T) {
	var have []protocol.Spec
	for _, m := range methods() {
		have = append(have, m.Spec)
	}
	require.Equal(t, protocol.Specs(), have)
}

// message is any JSON-RPC message of a golden file; nothing else may be in it.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      *string         `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *wireError      `json:"error,omitempty"`
}

type wireError struct {
	Code    protocol.Code      `json:"code"`
	Message string             `json:"message"`
	Data    protocol.ErrorData `json:"data"`
}

type exchange struct {
	Request  *message `json:"request,omitempty"`
	Response *message `json:"response,omitempty"`
}

type golden struct {
	exchange
	Error *message `json:"error,omitempty"`
	// More holds further exchanges, where one cannot show every member.
	More []exchange `json:"more,omitempty"`
}

func (g golden) exchanges() []exchange { return append([]exchange{g.exchange}, g.More...) }

func readGolden(t testing.TB, name string) golden {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(wireDir, name+".json"))
	require.NoError(t, err, "every method has a golden file")
	var g struct {
		Request, Response, Error *message
		More                     []exchange
	}
	require.NoError(t, strict(raw, &g))
	return golden{exchange{g.Request, g.Response}, g.Error, g.More}
}

// strict decodes the one JSON value in raw and refuses unknown members.
func strict(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one value")
	}
	return nil
}

// roundTrip fails unless raw decodes into typ without a member left over and
// encodes to the same JSON value again.
func roundTrip(t testing.TB, typ reflect.Type, raw json.RawMessage) {
	t.Helper()
	v := reflect.New(typ)
	require.NoError(t, strict(raw, v.Interface()), "%s lacks a member", typ)
	again, err := json.Marshal(v.Interface())
	require.NoError(t, err)
	require.JSONEq(t, string(raw), string(again), "%s does not round-trip", typ)
}

func TestGoldenFileForEveryMethodAndNoOther(t *testing.T) {
	var want []string
	for _, s := range protocol.Specs() {
		want = append(want, s.Name+".json")
	}
	entries, err := os.ReadDir(wireDir)
	require.NoError(t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	require.ElementsMatch(t, want, have)
}

func TestGoldenMessages(t *testing.T) {
	for _, m := range methods() {
		t.Run(m.Name, func(t *testing.T) {
			g := readGolden(t, m.Name)
			params := map[string]bool{}
			for _, x := range g.exchanges() {
				checkRequest(t, m, x.Request)
				addMembers(t, params, x.Request.Params)
				if m.Notify {
					require.Nil(t, x.Response, "a notification has no answer")
					continue
				}
				require.NotNil(t, x.Response)
				require.Equal(t, message{JSONRPC: "2.0", ID: x.Request.ID, Result: x.Response.Result}, *x.Response)
				roundTrip(t, m.result, x.Response.Result)
			}
			require.ElementsMatch(t, members(m.params), slices.Collect(maps.Keys(params)), "every member of the params is shown")
			if m.Notify {
				require.Nil(t, g.Error)
				return
			}
			require.NotNil(t, g.Error)
			require.Equal(t, message{JSONRPC: "2.0", ID: g.Request.ID, Error: g.Error.Error}, *g.Error)
			require.NotNil(t, g.Error.Error)
			checkError(t, m, *g.Error.Error)
		})
	}
}

func checkRequest(t *testing.T, m method, r *message) {
	t.Helper()
	require.NotNil(t, r)
	require.Equal(t, message{JSONRPC: "2.0", ID: r.ID, Method: m.Name, Params: r.Params}, *r)
	require.Equal(t, m.Notify, r.ID == nil, "a request has an id, a notification has none")
	roundTrip(t, m.params, r.Params)
	_, err := m.decode(r.Params)
	require.NoError(t, err, "the params pass their own check")
}

func checkError(t *testing.T, m method, e wireError) {
	t.Helper()
	require.Contains(t, protocol.Codes(), e.Code)
	require.NotEmpty(t, e.Message)
	require.Contains(t, reasons(t), e.Data.Reason)
	require.Equal(t, e.Code.Retryable(), e.Data.Retryable)
	require.Equal(t, e.Code == protocol.CodeCapabilityUnavailable, e.Data.Capability != "")
	if e.Data.Capability != "" {
		require.Equal(t, m.Capability, e.Data.Capability)
	}
}

func addMembers(t *testing.T, to map[string]bool, raw json.RawMessage) {
	t.Helper()
	var have map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &have))
	for name := range have {
		to[name] = true
	}
}

// members lists the JSON names of a struct's fields.
func members(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		names = append(names, jsonName(f))
	}
	return names
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Every struct inside params and results is shown with every member somewhere.
func TestGoldenMessagesShowEveryMember(t *testing.T) {
	seen := map[reflect.Type]map[string]bool{}
	for _, m := range methods() {
		for _, x := range readGolden(t, m.Name).exchanges() {
			showMembers(seen, m.params, x.Request.Params)
			if !m.Notify {
				showMembers(seen, m.result, x.Response.Result)
			}
		}
	}
	for typ, have := range seen {
		assert.ElementsMatch(t, members(typ), slices.Collect(maps.Keys(have)), "%s", typ)
	}
}

func showMembers(seen map[reflect.Type]map[string]bool, t reflect.Type, raw json.RawMessage) {
	switch t = deref(t); {
	case isLeaf(t):
	case t.Kind() == reflect.Struct:
		if seen[t] == nil {
			seen[t] = map[string]bool{}
		}
		var have map[string]json.RawMessage
		_ = json.Unmarshal(raw, &have)
		for f := range t.Fields() {
			if member, ok := have[jsonName(f)]; ok {
				seen[t][jsonName(f)] = true
				showMembers(seen, f.Type, member)
			}
		}
	case t.Kind() == reflect.Slice:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items)
		for _, item := range items {
			showMembers(seen, t.Elem(), item)
		}
	case t.Kind() == reflect.Map:
		var items map[string]json.RawMessage
		_ = json.Unmarshal(raw, &items)
		for _, item := range items {
			showMembers(seen, t.Elem(), item)
		}
	}
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// isLeaf: no members of its own, or none that the protocol names here.
func isLeaf(t reflect.Type) bool {
	return t == reflect.TypeFor[protocol.Time]() || t == reflect.TypeFor[json.RawMessage]() || t == reflect.TypeFor[[]byte]()
}

// The advertised capabilities in the golden register use every documented detail.
func TestGoldenRegisterShowsEveryCapability(t *testing.T) {
	params, err := protocol.DecodeParams[protocol.RegisterParams](readGolden(t, "executor.register").Request.Params, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, slices.Collect(maps.Keys(capabilityDetails())), slices.Collect(maps.Keys(params.Capabilities)))
	for name, typ := range capabilityDetails() {
		t.Run(name, func(t *testing.T) {
			roundTrip(t, typ, params.Capabilities[name])
			assert.True(t, params.Capabilities.Has(name))
			seen := map[reflect.Type]map[string]bool{}
			showMembers(seen, typ, params.Capabilities[name])
			for typ, have := range seen {
				assert.ElementsMatch(t, members(typ), slices.Collect(maps.Keys(have)), "%s", typ)
			}
		})
	}
}

func capabilityDetails() map[string]reflect.Type {
	return map[string]reflect.Type{
		protocol.CapabilityAgent:        reflect.TypeFor[protocol.AgentDetails](),
		protocol.CapabilityArtifacts:    reflect.TypeFor[protocol.ArtifactsDetails](),
		protocol.CapabilityChrome:       reflect.TypeFor[bool](),
		protocol.CapabilityComputerUse:  reflect.TypeFor[bool](),
		protocol.CapabilityDisplay:      reflect.TypeFor[protocol.DisplayDetails](),
		protocol.CapabilityFiles:        reflect.TypeFor[protocol.FilesDetails](),
		protocol.CapabilityFS:           reflect.TypeFor[protocol.FSDetails](),
		protocol.CapabilityMCP:          reflect.TypeFor[protocol.MCPDetails](),
		protocol.CapabilityProcess:      reflect.TypeFor[protocol.ProcessDetails](),
		protocol.CapabilitySessionFiles: reflect.TypeFor[protocol.SessionFilesDetails](),
		protocol.CapabilityShell:        reflect.TypeFor[protocol.ShellDetails](),
		protocol.CapabilitySkills:       reflect.TypeFor[protocol.SkillsDetails](),
		protocol.CapabilityTerminal:     reflect.TypeFor[protocol.TerminalDetails](),
		protocol.CapabilityWorkspace:    reflect.TypeFor[protocol.WorkspaceDetails](),
		protocol.CapabilityScripts:      reflect.TypeFor[protocol.ScriptsDetails](),
		protocol.CapabilityTools:        reflect.TypeFor[[]protocol.ToolInfo](),
		protocol.CapabilityBinaryFrames: reflect.TypeFor[bool](),
		protocol.CapabilityMessageParts: reflect.TypeFor[bool](),
	}
}
