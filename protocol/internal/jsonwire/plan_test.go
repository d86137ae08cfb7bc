package jsonwire_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// What is on the wire is quick: only these members go through encoding/json.
func TestProtocolTypesHavePlans(t *testing.T) {
	slow := map[string]bool{}
	for _, typ := range types {
		if strings.HasSuffix(typ.PkgPath(), "/protocol") {
			for _, path := range jsonwire.ViaJSON(typ) {
				slow[typ.Name()+path] = true
			}
		}
	}
	assert.Equal(t, map[string]bool{
		"Capabilities":                          true,
		"RegisterParams.capabilities":           true,
		"CapabilitiesUpdateParams.capabilities": true,
		"HeartbeatParams.load.cpu_percent":      true,
		"SessionReadyParams.mcp":                true,
	}, slow)
}

func TestOddTypesGoThroughEncodingJSON(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[embedding](), reflect.TypeFor[quoting](), reflect.TypeFor[twice](), reflect.TypeFor[any](),
		reflect.TypeFor[float64](), reflect.TypeFor[[2]int](), reflect.TypeFor[map[int]string](), reflect.TypeFor[env](),
		reflect.TypeFor[json.Number](), reflect.TypeFor[textual](), reflect.TypeFor[upper](), reflect.TypeFor[[]octet](),
		reflect.TypeFor[struct {
			A string `json:"ä"`
		}](),
	} {
		assert.Equal(t, []string{""}, jsonwire.ViaJSON(typ), typ)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[shout](), reflect.TypeFor[numbersWithoutPtr](), reflect.TypeFor[blob](), reflect.TypeFor[likeRaw](), reflect.TypeFor[[]**word](),
	} {
		assert.Empty(t, jsonwire.ViaJSON(typ), typ)
	}
	assert.Equal(t, []string{".map"}, jsonwire.ViaJSON(reflect.TypeFor[tree]()))
}

type numbersWithoutPtr struct {
	I8  int8
	U64 uint64
	B   bool
}

// Many goroutines meet a type that contains itself for the first time.
func TestPlansAreMadeConcurrently(t *testing.T) {
	type node struct {
		Name string  `json:"name"`
		Next *node   `json:"next,omitempty"`
		All  []*node `json:"all,omitempty"`
	}
	const raw = `{"name":"a","next":{"name":"b","all":[{"name":"c"},null]}}`
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var n node
			if err := jsonwire.Unmarshal([]byte(raw), &n, false); err != nil {
				t.Error(err)
			}
			if again, err := jsonwire.Append(nil, n); err != nil || string(again) != raw {
				t.Errorf("%s, %v", again, err)
			}
		})
	}
	wg.Wait()
}

func TestMemberNames(t *testing.T) {
	type members struct {
		One   int `json:"one"`
		Two   int `json:"two"`
		Three int `json:"three"`
		Four  int `json:"four"`
		Five  int `json:"five"`
		FIVE  int `json:"FIVE"`
	}
	for raw, want := range map[string]members{
		`{"one":1,"two":2,"three":3,"four":4,"five":5}`: {1, 2, 3, 4, 5, 0},
		`{"five":5,"four":4,"three":3,"two":2,"one":1}`: {1, 2, 3, 4, 5, 0},
		`{"four":4,"one":1,"one":7,"":9,"fou":8}`:       {One: 7, Four: 4},
		`{"FIVE":6,"five":5}`:                           {Five: 5, FIVE: 6},
		`{"\u006fne":1,"tw\u006F":2,"on\\e":3}`:         {One: 1, Two: 2},
		`{"ONE":1,"T\u0057o":2,"Five":5}`:               {One: 1, Two: 2, Five: 5},
		` { "one" : 1 , "x" : [ { } ] , "two" : 2 } `:   {One: 1, Two: 2},
		"{\"one\xff\":1,\"\xff\":2}":                    {},
	} {
		var have members
		require.NoError(t, jsonwire.Unmarshal([]byte(raw), &have, false))
		assert.Equal(t, want, have, raw)
	}
}
