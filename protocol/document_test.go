package protocol_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

var update = flag.Bool("update", false, "write the generated parts of PROTOCOL.md")

const documentFile = "PROTOCOL.md"

func readDocument(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	return string(raw)
}

// generated are the parts of PROTOCOL.md that are made from the code, by the
// name between their markers.
func generated(t testing.TB) map[string]string {
	return map[string]string{
		"specs":        specsTable(),
		"members":      membersTables(t),
		"objects":      objectsTables(),
		"capabilities": capabilitiesTable(),
		"errors":       errorsTable(),
		"reasons":      reasonsTable(t),
		"closes":       closesTable(t),
		"defaults":     defaultsTable(t),
	}
}

// The document says what the code does. After a change of the code:
//
//	go test ./protocol -run TestDocument -update
func TestDocumentIsUpToDate(t *testing.T) {
	have := readDocument(t)
	want := have
	for name, text := range generated(t) {
		begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
		i, j := strings.Index(want, begin), strings.Index(want, end)
		require.True(t, i >= 0 && j > i, "the markers of %s", name)
		want = want[:i+len(begin)] + text + want[j:]
	}
	if *update && want != have {
		require.NoError(t, os.WriteFile(documentFile, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, have, "run: go test ./protocol -run TestDocument -update")
}

func specsTable() string {
	var b strings.Builder
	b.WriteString("| method | direction | kind | gate | repeat key | extension |\n|---|---|---|---|---|---|\n")
	for _, s := range protocol.Specs() {
		kind, gate := "R", s.Capability
		if s.Notify {
			kind = "N"
		}
		if s.Name == protocol.ToolCall.Name {
			gate = "the tool's" // a tool is there when its capability is
		}
		ext := ""
		if s.Extension {
			ext = "[x]"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", s.Name, direction(s), kind, gate, s.Repeat, ext)
	}
	return b.String()
}

func direction(s protocol.Spec) string {
	switch s.From {
	case protocol.Executor:
		return "E→B"
	case protocol.Brain:
		return "B→E"
	default:
		return "both"
	}
}

func membersTables(t testing.TB) string {
	var b strings.Builder
	for _, m := range methods() {
		kind := "request"
		if m.Notify {
			kind = "notification"
		}
		fmt.Fprintf(&b, "#### %s\n\n%s, %s · [messages](../testdata/wire/%s.json)\n\n", m.Name, direction(m.Spec), kind, m.Name)
		fmt.Fprintf(&b, "| params | type | needed | meaning |\n|---|---|---|---|\n")
		needed := requiredMembers(t, m)
		for f := range m.params.Fields() {
			mark := neededIf[m.Name+"."+jsonName(f)]
			if mark == "" && needed[jsonName(f)] {
				mark = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", jsonName(f), wireType(f.Type), mark, meaning(m.params, f))
		}
		b.WriteString("\n")
		if m.result != nil {
			if _, shared := sharedObjects[m.result]; shared {
				fmt.Fprintf(&b, "Result: [%s](#%s).\n\n", m.result.Name(), anchor(m.result))
			} else {
				b.WriteString("| result | type | meaning |\n|---|---|---|\n")
				writeMembers(&b, m.result)
				b.WriteString("\n")
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// neededIf holds the members that are needed only beside others.
var neededIf = map[string]string{
	"process.start.argv":            "one of three",
	"process.start.package_install": "one of three",
	"process.start.file_transfer":   "one of three",
	"process.start.cols":            "with rows",
	"process.start.rows":            "with cols",
}

func writeMembers(b *strings.Builder, t reflect.Type) {
	for f := range t.Fields() {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", jsonName(f), wireType(f.Type), meaning(t, f))
	}
}

// sharedObjects are the structs that params and results are made of and that
// have a table of their own, in that order.
var sharedObjects = func() map[reflect.Type]int {
	found := map[reflect.Type]int{}
	add := func(t reflect.Type) {
		if _, ok := found[t]; !ok {
			found[t] = len(found)
		}
	}
	var walk func(t reflect.Type, top bool)
	walk = func(t reflect.Type, top bool) {
		switch t = deref(t); {
		case isLeaf(t):
		case t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
			walk(t.Elem(), false)
		case t.Kind() == reflect.Struct:
			if !top {
				add(t)
			}
			for f := range t.Fields() {
				walk(f.Type, false)
			}
		}
	}
	add(reflect.TypeFor[protocol.ProcessState]())
	add(reflect.TypeFor[protocol.ErrorData]())
	for _, m := range methods() {
		walk(m.params, true)
		if m.result != nil {
			walk(m.result, m.result != reflect.TypeFor[protocol.ProcessState]())
		}
	}
	add(reflect.TypeFor[protocol.ToolInfo]())
	add(reflect.TypeFor[protocol.Annotations]())
	add(reflect.TypeFor[protocol.TokenExchangeRequest]())
	add(reflect.TypeFor[protocol.TokenExchangeResponse]())
	add(reflect.TypeFor[protocol.TerminalMessage]())
	return found
}()

func objectsTables() string {
	var b strings.Builder
	for _, t := range slices.SortedFunc(maps.Keys(sharedObjects), func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) }) {
		fmt.Fprintf(&b, "#### %s\n\n| member | type | meaning |\n|---|---|---|\n", t.Name())
		writeMembers(&b, t)
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func capabilitiesTable() string {
	var b strings.Builder
	b.WriteString("| capability | member | type | meaning |\n|---|---|---|---|\n")
	details := capabilityDetails()
	for _, name := range slices.Sorted(maps.Keys(details)) {
		typ := details[name]
		if typ.Kind() != reflect.Struct {
			fmt.Fprintf(&b, "| `%s` | | %s | %s |\n", name, wireType(typ), meanings["Capabilities."+name])
			continue
		}
		for f := range typ.Fields() {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", name, jsonName(f), wireType(f.Type), meaning(typ, f))
		}
	}
	return b.String()
}

func wireType(t reflect.Type) string {
	switch t = deref(t); t {
	case reflect.TypeFor[protocol.Time]():
		return "time"
	case reflect.TypeFor[json.RawMessage]():
		return "any"
	case reflect.TypeFor[[]byte]():
		return "bytes"
	case reflect.TypeFor[protocol.Capabilities]():
		return "[capabilities](#capabilities)"
	case reflect.TypeFor[protocol.TerminalMessage]():
		return "object"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice:
		return wireType(t.Elem()) + "[]"
	case reflect.Map:
		return "object of " + wireType(t.Elem())
	case reflect.Struct:
		return fmt.Sprintf("[%s](#%s)", t.Name(), anchor(t))
	}
	panic("no word for " + t.String())
}

func anchor(t reflect.Type) string { return strings.ToLower(t.Name()) }

func meaning(t reflect.Type, f reflect.StructField) string {
	if text, ok := meanings[t.Name()+"."+jsonName(f)]; ok {
		return text
	}
	return meanings[jsonName(f)]
}

func TestEveryMemberHasAMeaning(t *testing.T) {
	used := map[string]bool{}
	check := func(typ reflect.Type) {
		if typ == nil || typ.Kind() != reflect.Struct {
			return
		}
		for f := range typ.Fields() {
			assert.NotEmpty(t, meaning(typ, f), "%s.%s", typ.Name(), jsonName(f))
			used[typ.Name()+"."+jsonName(f)] = true
			used[jsonName(f)] = true
		}
	}
	for _, m := range methods() {
		check(m.params)
		check(m.result)
	}
	for typ := range sharedObjects {
		check(typ)
	}
	for name, typ := range capabilityDetails() {
		check(typ)
		if typ.Kind() != reflect.Struct {
			assert.NotEmpty(t, meanings["Capabilities."+name])
			used["Capabilities."+name] = true
		}
	}
	for name := range meanings {
		assert.True(t, used[name], "%s explains nothing", name)
	}
}

func errorsTable() string {
	var b strings.Builder
	b.WriteString("| code | name | retryable |\n|---|---|---|\n")
	for _, c := range protocol.Codes() {
		retryable := ""
		if c.Retryable() {
			retryable = "yes"
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", int(c), c, retryable)
	}
	return b.String()
}

func reasonsTable(t testing.TB) string {
	var b strings.Builder
	b.WriteString("| reason | meaning |\n|---|---|\n")
	for _, reason := range slices.Sorted(maps.Values(constants(t, "errors.go", "Reason"))) {
		require.NotEmpty(t, reasonMeanings[reason], reason)
		fmt.Fprintf(&b, "| `%s` | %s |\n", reason, reasonMeanings[reason])
	}
	return b.String()
}

func closesTable(t testing.TB) string {
	var b strings.Builder
	b.WriteString("| code | meaning | what the executor does |\n|---|---|---|\n")
	for _, code := range slices.Sorted(maps.Values(constants(t, "errors.go", "Close"))) {
		require.NotEmpty(t, closeMeanings[code], code)
		fmt.Fprintf(&b, "| %s | %s |\n", code, closeMeanings[code])
	}
	return b.String()
}

// defaultsTable takes the numbers from the constants, and every constant.
func defaultsTable(t testing.TB) string {
	rows := []struct {
		constant string
		value    any
		what     string
	}{
		{"DefaultHeartbeatInterval", protocol.DefaultHeartbeatInterval, "heartbeat interval"},
		{"DefaultLeaseTTL", protocol.DefaultLeaseTTL, "lease"},
		{"DefaultRequestTimeout", protocol.DefaultRequestTimeout, "wait for an answer; for a request with `wait_ms` that much longer"},
		{"DefaultPingInterval", protocol.DefaultPingInterval, "WebSocket ping, both directions"},
		{"DefaultDeadAfter", protocol.DefaultDeadAfter, "nothing received: the connection is dead"},
		{"DefaultMinBackoff", protocol.DefaultMinBackoff, "reconnect: base delay"},
		{"DefaultMaxBackoff", protocol.DefaultMaxBackoff, "reconnect: longest delay"},
		{"DefaultResultRetryMin", protocol.DefaultResultRetryMin, "retry of a refused result: first delay, doubling"},
		{"DefaultResultRetryMax", protocol.DefaultResultRetryMax, "retry of a refused result: longest delay"},
		{"DefaultDrainTimeout", protocol.DefaultDrainTimeout, "drain without a deadline"},
		{"DefaultProcessRing", size(protocol.DefaultProcessRing), "`buffer_bytes`: output kept per stream of a process"},
		{"DefaultMaxProcesses", count(protocol.DefaultMaxProcesses), "`max_processes_per_session`: running processes"},
		{"DefaultMaxProcessRead", size(protocol.DefaultMaxProcessRead), "`max_process_read_bytes`: one process.read"},
		{"DefaultMaxProcessWrite", size(protocol.DefaultMaxProcessWrite), "`max_process_write_bytes`: one process.write"},
		{"DefaultMaxProcessReads", count(protocol.DefaultMaxProcessReads), "`max_concurrent_process_reads`: reads that wait at the same time"},
		{"DefaultMaxControlFrame", size(protocol.DefaultMaxControlFrame), "`max_control_frame_bytes`, also before register"},
		{"DefaultMaxMCPFrame", size(protocol.DefaultMaxMCPFrame), "`max_mcp_frame_bytes`"},
		{"DefaultMaxArtifact", size(protocol.DefaultMaxArtifact), "`max_artifact_bytes`"},
		{"DefaultMaxInFlight", count(protocol.DefaultMaxInFlight), "`max_inflight_requests`: requests not answered yet"},
		{"DefaultInlineResult", size(protocol.DefaultInlineResult), "`inline_result_bytes`: text of a result before it is spilled"},
		{"DefaultBashTimeout", protocol.DefaultBashTimeout, "time limit of a bash call"},
		{"MaxBashTimeout", protocol.MaxBashTimeout, "longest time limit of a bash call"},
		{"DefaultStoredResultsPerScope", count(protocol.DefaultStoredResultsPerScope), "results kept per session after their acknowledgement, at least"},
	}
	var b strings.Builder
	b.WriteString("| what | default |\n|---|---|\n")
	var listed []string
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.what, number(r.value))
		listed = append(listed, r.constant)
	}
	require.ElementsMatch(t, constantNames(t, "defaults.go", "Default", "Max"), listed)
	return b.String()
}

type (
	size  int64
	count int
)

func number(v any) string {
	switch v := v.(type) {
	case time.Duration:
		if v < time.Second {
			return fmt.Sprintf("%d ms", v.Milliseconds())
		}
		return fmt.Sprintf("%g s", v.Seconds())
	case size:
		if v >= 1<<20 {
			return fmt.Sprintf("%d MiB (%d bytes)", v>>20, v)
		}
		return fmt.Sprintf("%d KiB (%d bytes)", v>>10, v)
	}
	return fmt.Sprint(v)
}

func constantNames(t testing.TB, file string, prefixes ...string) (names []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	for _, decl := range f.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.CONST {
			for _, spec := range gen.Specs {
				name := spec.(*ast.ValueSpec).Names[0].Name
				if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func TestDefaultLimits(t *testing.T) {
	assert.Equal(t, protocol.Limits{MaxArtifactBytes: 64 << 20, MaxConcurrentProcessReads: 32, MaxInflightRequests: 64,
		MaxProcessReadBytes: 256 << 10, MaxProcessWriteBytes: 64 << 10, MaxProcessesPerSession: 32}, protocol.DefaultLimits())
}

// block returns the text of the fenced block with that word behind its fence.
func block(t testing.TB, word string) string {
	t.Helper()
	_, after, found := strings.Cut(readDocument(t), "```"+word+"\n")
	require.True(t, found, word)
	text, _, found := strings.Cut(after, "```\n")
	require.True(t, found, word)
	return text
}

// The frames of the worked example are what the two ends would really send: each
// is known, goes the right way, is complete, and is answered.
func TestDocumentExampleConnection(t *testing.T) {
	open := map[string]method{}
	requests := 0
	for line := range strings.Lines(block(t, "frames")) {
		arrow, text, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || arrow != "→" && arrow != "←" {
			continue
		}
		sender := map[string]protocol.End{"→": protocol.Executor, "←": protocol.Brain}[arrow]
		var m message
		require.NoError(t, strict([]byte(text), &m), line)
		require.Equal(t, "2.0", m.JSONRPC)
		if m.Method == "" {
			require.NotNil(t, m.ID, line)
			asked, ok := open[*m.ID]
			require.True(t, ok, "nobody asked: %s", line)
			require.NotEqual(t, asked.From, sender, line)
			delete(open, *m.ID)
			if m.Error != nil {
				checkError(t, asked, *m.Error)
			} else {
				roundTrip(t, asked.result, m.Result)
			}
			continue
		}
		asked := find(t, m.Method)
		checkRequest(t, asked, &m)
		require.Contains(t, []protocol.End{sender, protocol.EitherEnd}, asked.From, line)
		if !asked.Notify {
			requests++
			open[*m.ID] = asked
		}
	}
	require.Empty(t, open, "unanswered")
	require.Greater(t, requests, 5)
}

// The binary message of the document, byte by byte.
func TestDocumentBinaryMessage(t *testing.T) {
	var raw []byte
	for line := range strings.Lines(block(t, "hexdump")) {
		_, line, _ = strings.Cut(line, "  ")
		dump, _, _ := strings.Cut(line, "  |")
		part, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(dump), " ", ""))
		require.NoError(t, err, line)
		raw = append(raw, part...)
	}
	n := int(binary.BigEndian.Uint32(raw))
	require.Contains(t, readDocument(t), strconv.Itoa(n)+" bytes of JSON")
	object, data := raw[4:4+n], raw[4+n:]

	var m message
	require.NoError(t, strict(object, &m))
	require.Equal(t, protocol.ProcessOutput.Name, m.Method)
	p, err := protocol.DecodeParams[protocol.ProcessOutputParams](m.Params, nil)
	require.NoError(t, err)
	require.Empty(t, p.Data)
	*p.Blob() = data

	// The same message as text, which the document shows beside it.
	params, err := json.Marshal(p)
	require.NoError(t, err)
	var text message
	require.NoError(t, strict([]byte(block(t, "text-message")), &text))
	require.JSONEq(t, string(params), string(text.Params))
}

// Everything the document must say at all.
func TestDocumentSections(t *testing.T) {
	text := readDocument(t)
	for _, heading := range []string{"## Connection", "## The first minute", "## Messages", "## Methods", "## Errors", "## Close codes",
		"## Limits and defaults", "## The corners, decided", "## Implementing a brain", "## Changes"} {
		assert.Contains(t, text, "\n"+heading, heading)
	}
	for _, name := range []string{protocol.Version1, protocol.TerminalVersion1, protocol.DialectBMA11, protocol.DialectBMA10,
		"executor.token.refresh", "executor.capabilities.update", "session.event.delta"} {
		assert.Contains(t, text, "`"+name+"`")
	}
}
