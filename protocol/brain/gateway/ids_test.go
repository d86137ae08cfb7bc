package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/brain/gateway"
)

// hearLine is the next line as it is.
func (c *typed) hearLine() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	return line
}

// refused says something that has no id that can be answered.
func (c *typed) refused(line, says string) {
	c.t.Helper()
	c.say(line)
	m := c.hear()
	id, there := m["id"]
	require.True(c.t, there)
	require.Nil(c.t, id)
	e := m["error"].(map[string]any)
	require.EqualValues(c.t, -32600, e["code"], m)
	require.Contains(c.t, e["message"], says)
}

// An id is echoed as it was sent, or refused.
func TestIDs(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", sleepy())
		w.ready(1)
		c := w.typed()
		c.begin()
		for _, id := range []string{`1`, `0`, `-7`, `9007199254740991`, `9007199254740992`, `9007199254740993`, `-9007199254740993`,
			`9223372036854775807`, `-9223372036854775808`, `""`, `"1"`, `"9007199254740993"`, `"a\"<b"`} {
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			require.Contains(t, c.hearLine(), `"id":`+id+`,`)
		}
		c.say(`{"jsonrpc":"2.0","method":"ping","id":9007199254740993,"params":{}}`)
		require.Contains(t, c.hearLine(), `"id":9007199254740993,"result":{}`)
		for _, id := range []string{`1.5`, `1e2`, `1.0`, `null`, `true`, `[1]`, `{}`, `9223372036854775808`, `12345678901234567890123`, `1e400`, `"\u00009007199254740993"`} {
			c.refused(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, "not a JSON-RPC message")
		}

		// What is cancelled is what was meant.
		slow := func(id string) {
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"sleep","arguments":{"n":1000}}}`)
		}
		slow(`500`)
		slow(`9007199254740993`)
		synctest.Wait()
		for _, id := range []string{`500.7`, `null`, `"500"`, `9007199254740992`, `{}`} {
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		}
		c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`)
		both := c.hearLine() + c.hearLine()
		require.Contains(t, both, `"id":500,"result"`)
		require.Contains(t, both, `"id":9007199254740993,"result"`)
		require.Equal(t, 2, strings.Count(both, "slept"))

		// A cancelled call is not answered; the next one is.
		for _, id := range []string{`500`, `9007199254740993`} {
			before := time.Now()
			slow(id)
			synctest.Wait()
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"test"}}`)
			synctest.Wait()
			c.say(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
			require.Equal(t, "after", c.hear()["id"])
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			require.Contains(t, c.hearLine(), `"id":`+id+`,"result":{}`, "the id is free again")
			require.Less(t, time.Since(before), time.Second)
		}
	})
}

// The id of a call that runs is refused, and the call goes on.
func TestIDInUse(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", sleepy())
		w.ready(1)
		c := w.typed()
		c.begin()
		call := `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"sleep","arguments":{"n":1000}}}`
		c.say(call)
		synctest.Wait()
		c.refused(call, "no answer yet")
		c.refused(`{"jsonrpc":"2.0","id":"a","method":"ping"}`, "(ping)")
		m := c.hear()
		require.Equal(t, "a", m["id"])
		require.Contains(t, fmt.Sprint(m["result"]), "slept")
		c.say(call)
		require.Equal(t, "a", c.hear()["id"])
	})
}

// What comes at the wrong time is an invalid request.
func TestErrorCodes(t *testing.T) {
	in(t, gateway.Options{}, func(t *testing.T, w *world) {
		w.executor("one", sleepy())
		w.ready(1)
		c := w.typed()
		code := func(line string) (float64, any) {
			c.say(line)
			e, _ := c.hear()["error"].(map[string]any)
			require.NotNil(t, e)
			return e["code"].(float64), e["message"]
		}
		n, says := code(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sleep"}}`)
		require.EqualValues(t, -32600, n)
		require.Contains(t, says, "initialization")
		c.begin()
		n, says = code(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}`)
		require.EqualValues(t, -32600, n)
		require.Contains(t, says, "duplicate")
		n, _ = code(`{"jsonrpc":"2.0","id":3,"method":"no/such"}`)
		require.EqualValues(t, -32601, n)
		n, _ = code(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"nosuch"}}`)
		require.EqualValues(t, -32602, n)
		n, _ = code(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":7}}`)
		require.Less(t, n, -32000.0)
		n, _ = code(`{"jsonrpc":"2.0","id":6,"method":"tools/call"}`)
		require.Less(t, n, -32000.0)
	})
}
