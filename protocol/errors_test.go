package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// constants reads the values of the constants in a source file whose names start
// with prefix, by name; so that no list here has to be kept in step by hand.
func constants(t testing.TB, file, prefix string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	found := map[string]string{}
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if name := v.Names[0].Name; strings.HasPrefix(name, prefix) {
				sign, value := "", v.Values[0]
				if neg, ok := value.(*ast.UnaryExpr); ok {
					sign, value = "-", neg.X
				}
				lit := value.(*ast.BasicLit).Value
				if s, err := strconv.Unquote(lit); err == nil {
					lit = s
				}
				found[name] = sign + lit
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// reasons lists every reason: the names of the codes and the words beyond them.
func reasons(t testing.TB) (all []string) {
	for _, c := range protocol.Codes() {
		all = append(all, c.String())
	}
	for _, r := range constants(t, "errors.go", "Reason") {
		all = append(all, r)
	}
	return all
}

func TestCodesListsEveryConstant(t *testing.T) {
	var have, want []string
	for _, c := range protocol.Codes() {
		have = append(have, strconv.Itoa(int(c)))
	}
	for _, v := range constants(t, "errors.go", "Code") {
		want = append(want, v)
	}
	require.ElementsMatch(t, want, have)
}

// The table of errors as the contract has it, written down a second time.
func TestCodesAreThoseOfTheContract(t *testing.T) {
	want := map[protocol.Code]string{
		-32700: "parse_error", -32600: "invalid_request", -32601: "method_not_found", -32602: "invalid_params",
		-32603: "internal_error", -32001: "unauthorized", -32002: "forbidden", -32003: "not_found", -32004: "conflict",
		-32005: "session_not_active", -32006: "lease_expired", -32007: "executor_busy", -32008: "capability_unavailable",
		-32009: "resource_unavailable", -32010: "payload_too_large", -32011: "timeout", -32012: "canceled",
		-32013: "mcp_unavailable", -32014: "unsupported_protocol",
	}
	retryable := []string{"lease_expired", "executor_busy", "resource_unavailable", "timeout"}
	require.Len(t, protocol.Codes(), len(want))
	for _, c := range protocol.Codes() {
		assert.Equal(t, want[c], c.String())
		assert.Equal(t, slices.Contains(retryable, c.String()), c.Retryable(), "%s", c)
	}
	assert.Equal(t, "code_7", protocol.Code(7).String())
	assert.False(t, protocol.Code(7).Retryable())
}

func TestReasonsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range reasons(t) {
		assert.False(t, seen[r], "%s", r)
		assert.Regexp(t, `^[a-z]+(_[a-z]+)*$`, r)
		seen[r] = true
	}
}

func TestErrorf(t *testing.T) {
	e := protocol.Errorf(protocol.CodeExecutorBusy, "%d requests in flight", 64)
	assert.Equal(t, protocol.ErrorData{Reason: "executor_busy", Retryable: true}, e.Data)
	assert.Equal(t, "executor_busy: 64 requests in flight", e.Error())
	assert.Equal(t, "executor_busy", e.Reason())
	assert.Equal(t, "not_found", (&protocol.Error{Code: protocol.CodeNotFound}).Reason(), "a peer may leave the reason out")
}

func TestErrorWithLeavesTheOriginalAlone(t *testing.T) {
	e := protocol.Errorf(protocol.CodeForbidden, "outside the roots")
	changed := e.WithReason(protocol.ReasonWorkspaceBoundary).WithDetail("/etc/passwd").WithRetryable(true).WithCapability("files")
	assert.Equal(t, protocol.ErrorData{Reason: "forbidden"}, e.Data)
	assert.Equal(t, protocol.ErrorData{Reason: "workspace_boundary", Detail: "/etc/passwd", Retryable: true, Capability: "files"}, changed.Data)
	assert.Equal(t, "forbidden (workspace_boundary): outside the roots", changed.Error())
}

func TestErrorIs(t *testing.T) {
	boundary := protocol.Errorf(protocol.CodeForbidden, "outside").WithReason(protocol.ReasonWorkspaceBoundary)
	wrapped := fmt.Errorf("read main.go: %w", boundary)
	assert.ErrorIs(t, wrapped, protocol.ErrForbidden, "a sentinel matches every error of its code")
	assert.ErrorIs(t, wrapped, boundary)
	assert.NotErrorIs(t, wrapped, protocol.ErrNotFound)
	assert.NotErrorIs(t, wrapped, protocol.ErrForbidden.WithReason(protocol.ReasonWorkspaceReadOnly))
	assert.NotErrorIs(t, protocol.ErrForbidden, boundary, "the general one is not the special one")
	assert.NotErrorIs(t, wrapped, errors.New("forbidden"))
	assert.ErrorIs(t, wrapped, &protocol.Error{Code: protocol.CodeForbidden})
	var e *protocol.Error
	require.ErrorAs(t, wrapped, &e)
	assert.Equal(t, "workspace_boundary", e.Reason())
}

func TestErrorDataOnTheWire(t *testing.T) {
	for want, data := range map[string]protocol.ErrorData{
		`{"reason":"not_found","retryable":false}`:                      protocol.ErrNotFound.Data,
		`{"reason":"conflict","retryable":false,"expected_sequence":4}`: {Reason: "conflict", ExpectedSequence: 4},
	} {
		raw, err := json.Marshal(data)
		require.NoError(t, err)
		assert.Equal(t, want, string(raw), "retryable is always said")
	}
}
