package jsonwire_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

func TestAppend(t *testing.T) {
	seven, three := seven(7), 3
	for want, v := range map[string]any{
		`null`:                                 nil,
		`""`:                                   "",
		`"<b>&\u2028\ufffd"`:                   "<b>&\u2028\xff",
		`-128`:                                 int8(math.MinInt8),
		`18446744073709551615`:                 uint64(math.MaxUint64),
		`true`:                                 true,
		`1.5e-9`:                               1.5e-9,
		`"aGk="`:                               []byte("hi"),
		`[]`:                                   []string{},
		`3`:                                    &three,
		`[null,"x"]`:                           []*string{nil, new("x")},
		`{"a":[1,"x y"]}`:                      json.RawMessage(" { \"a\" :\n[ 1,\t\"x y\" ] } "),
		`{"a":"1","b":"2"}`:                    map[string]string{"b": "2", "a": "1"},
		`{"1":"x"}`:                            map[int]string{1: "x"},
		`{"accepted":false}`:                   protocol.AcceptedResult{},
		`{"loud":["x","<&>` + "\u2028" + `"]}`: shout("x"),
		`{}`:                                   tree{},
		`{"trees":[{"name":"x"}],"map":{"a":null}}`: tree{Trees: []tree{{Name: "x"}}, Map: map[string]*tree{"a": nil}},
		`{"Iface":null}`: zeros{Seven: seven, Sevens: &seven},
		`{"session_id":"s","process_id":"p","stream":"stdout","cursor":0,"data":"b2sK"}`: &protocol.ProcessOutputParams{
			SessionID: "s", ProcessID: "p", Stream: "stdout", Data: []byte("ok\n")},
	} {
		have, err := jsonwire.Append([]byte("> "), v)
		require.NoError(t, err)
		assert.Equal(t, "> "+want, string(have))
	}
}

func TestAppendNil(t *testing.T) {
	for _, v := range []any{(*tree)(nil), []string(nil), []byte(nil), json.RawMessage(nil), map[string]string(nil), (*protocol.Time)(nil), (**int)(nil)} {
		have, err := jsonwire.Append(nil, v)
		require.NoError(t, err)
		assert.Equal(t, "null", string(have), "%T", v)
	}
}

func TestAppendErrorsLeaveTheBuffer(t *testing.T) {
	type cyclic struct{ Next *cyclic }
	var cycle cyclic
	cycle.Next = &cycle
	list := make([]any, 1)
	list[0] = list
	for _, v := range []any{
		json.RawMessage(`{"a":`), json.RawMessage(``), json.RawMessage(`1 2`), math.NaN(), make(chan int), func() {},
		shout("bad"), shout("broken"), []shout{"ok", "bad"}, textual{"bad"}, &cycle, cycle, list,
		&protocol.ToolCallParams{SessionID: "s", Input: json.RawMessage("{")},
	} {
		have, err := jsonwire.Append([]byte("before"), v)
		require.Error(t, err, "%T", v)
		assert.Equal(t, "before", string(have))
		// An error does not stick.
		have, err = jsonwire.Append(nil, 1.5)
		require.NoError(t, err)
		assert.Equal(t, "1.5", string(have))
	}
	_, err := jsonwire.Append(nil, shout("broken"))
	var marshaler *json.MarshalerError
	require.ErrorAs(t, err, &marshaler)
	assert.Contains(t, err.Error(), "shout")
}

// Raw JSON deeper than the scanner goes is still written.
func TestAppendDeepRaw(t *testing.T) {
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	have, err := jsonwire.Append(nil, json.RawMessage(deep))
	require.NoError(t, err)
	assert.Equal(t, deep, string(have))
}

func TestAppendAllocatesNothing(t *testing.T) {
	params := &protocol.ToolCallParams{SessionID: "s", Input: json.RawMessage(`{"a":1}`), Permission: &protocol.Permission{Mode: "m"}}
	buf := make([]byte, 0, 1024)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = jsonwire.Append(buf, params) }))
}
