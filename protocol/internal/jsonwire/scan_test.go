package jsonwire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

func TestSkipValue(t *testing.T) {
	for raw, end := range map[string]int{
		`1`: 1, `-0.5e+3,`: 7, ` true]`: 5, `null`: 4, `false x`: 5, `01`: 1,
		`"a\"b" `: 6, `"\u12aF"`: 8, `"12345678"9`: 10, "\"\x7f\xff\"": 4,
		`[]`: 2, `{} {}`: 2, `[1,{"a":[ ]}],`: 13, ` { "a" : 1 , "b" : "}" } `: 24,

		``: -1, ` `: -1, `-`: -1, `1.`: -1, `1e`: -1, `.5`: -1, `+1`: -1, `tru`: -1, `nul`: -1, `nan`: -1, `'a'`: -1,
		`"`: -1, `"a`: -1, `"\"`: -1, `"\x"`: -1, `"\u123"`: -1, `"\u12g4"`: -1, "\"\n\"": -1, "\"1234567\x1f\"": -1,
		`[`: -1, `]`: -1, `[1`: -1, `[1,`: -1, `[1,]`: -1, `[,1]`: -1, `[1 2]`: -1, `[1}`: -1, `[{]}`: -1,
		`{`: -1, `{"a"`: -1, `{"a":`: -1, `{"a":1`: -1, `{"a":1,`: -1, `{"a":1,}`: -1, `{"a" 1}`: -1, `{1:1}`: -1, `{"a":1]`: -1, `{a:1}`: -1,
	} {
		assert.Equal(t, end, jsonwire.SkipValue([]byte(raw), 0), "%q", raw)
	}
	assert.Equal(t, 5, jsonwire.SkipValue([]byte(`[1, 2]`), 3))
}

func TestSkipValueDepth(t *testing.T) {
	for _, depth := range []int{1, 63, 64, 65, 128, 999, 1000, 1001, 1 << 20} {
		want := depth <= 1000
		arrays := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		assert.Equal(t, want, jsonwire.SkipValue([]byte(arrays), 0) == len(arrays), depth)
		// Each level has to be closed by what it was opened with.
		half := depth / 2
		mixed := strings.Repeat(`[{"a":`, half) + "1" + strings.Repeat("}]", half)
		assert.Equal(t, want || depth == 1001, jsonwire.SkipValue([]byte(mixed), 0) == len(mixed), depth)
		if half > 0 {
			crossed := strings.Repeat(`[{"a":`, half) + "1" + strings.Repeat("}]", half-1) + "]}"
			assert.Equal(t, -1, jsonwire.SkipValue([]byte(crossed), 0), depth)
		}
	}
}

func TestForEachMember(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:                                  "",
		` { } `:                               "",
		`{"a":1,"b\u0063":{"x":[2]},"":" "}`:  `a=1;b\u0063={"x":[2]};=" ";`,
		" {\n\"a\" :\t[ 1 ] , \"a\" : null }": "a=[ 1 ];a=null;",
	} {
		var have strings.Builder
		assert.True(t, jsonwire.ForEachMember([]byte(raw), func(name, value []byte) {
			have.WriteString(string(name) + "=" + string(value) + ";")
		}), raw)
		assert.Equal(t, want, have.String(), raw)
	}
	for _, raw := range []string{``, `[]`, `1`, `"{}"`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1}}`, `{} {}`, `{"a":1 "b":2}`, `{"a`, `{,}`} {
		assert.False(t, jsonwire.ForEachMember([]byte(raw), func(_, _ []byte) {}), raw)
	}
}

func TestScanningAllocatesNothing(t *testing.T) {
	raw := []byte(`{"a":[1,{"b":"c"}],"d":null}`)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		jsonwire.SkipValue(raw, 0)
		jsonwire.ForEachMember(raw, func(_, _ []byte) {})
	}))
}
