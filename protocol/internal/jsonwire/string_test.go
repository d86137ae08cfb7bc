package jsonwire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

func encode(t require.TestingT, v any) string {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(v))
	return strings.TrimSuffix(buf.String(), "\n")
}

// Every byte at every place around the eight that are looked at together.
func TestStringsByteByByte(t *testing.T) {
	for c := range 256 {
		for at := range 18 {
			s := "0123456789abcdefgh"
			s = s[:at] + string([]byte{byte(c)}) + s[at:]
			raw, err := jsonwire.Append(nil, s)
			require.NoError(t, err)
			require.Equal(t, encode(t, s), string(raw), "%q", s)
			sameString(t, raw)
			sameString(t, []byte(`"`+s+`"`))
		}
	}
}

// sameString decodes a string beside encoding/json, which may find it invalid.
func sameString(t require.TestingT, raw []byte) {
	var want, have string
	if json.Unmarshal(raw, &want) != nil {
		require.Error(t, jsonwire.Unmarshal(raw, &have, false), "%q", raw)
		return
	}
	require.NoError(t, jsonwire.Unmarshal(raw, &have, false), "%q", raw)
	require.Equal(t, want, have, "%q", raw)
}

func TestUnquote(t *testing.T) {
	for raw, want := range map[string]string{
		`\"\\\/\b\f\n\r\t`:         "\"\\/\b\f\n\r\t",
		`\u0041\u00e9\u20AC`:       "Aé€",
		`\ud83d\ude00`:             "😀",
		`\ud83d`:                   "\ufffd",
		`\ude00\ud83d`:             "\ufffd\ufffd",
		`\ud83d\ud83d\ude00`:       "\ufffd😀",
		`\ud83dx\ude00`:            "\ufffdx\ufffd",
		`\ud83d\u0041`:             "\ufffdA",
		`\ud83d\n`:                 "\ufffd\n",
		"é\xff\xc3\\n\xed\xa0\x80": "é\ufffd\ufffd\n\ufffd\ufffd\ufffd",
		`\u0000`:                   "\x00",
	} {
		for _, around := range []string{"", "x", "1234567", strings.Repeat("long ", 40)} {
			var have string
			require.NoError(t, jsonwire.Unmarshal([]byte(`"`+around+raw+around+`"`), &have, false))
			assert.Equal(t, around+want+around, have, "%q", raw)
		}
	}
}

// A string of escapes only does not keep six times its size.
func TestUnquoteManyEscapes(t *testing.T) {
	var have string
	require.NoError(t, jsonwire.Unmarshal([]byte(`"`+strings.Repeat(`\u0061`, 1000)+`"`), &have, false))
	assert.Equal(t, strings.Repeat("a", 1000), have)
}

// Strings of pieces that have to be told apart, at any distance from each other.
func TestStringsOfPieces(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"a", "plain text, ", "ä", "€", "😀", "\u2028", "\u2029", "\u2027", "\"", "\\", "\n", "\x00", "\x1f", "\x7f", "<&>",
		"\xff", "\xe2", "\xe2\x80", "\xed\xa0\x80", "\xf0\x9f\x98", "\xc0\x80", "\ufffd",
	})
	escaped := rapid.SampledFrom([]string{"a", "text text ", "ä", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\ud83d`, `\ude00`, `\u2028`, "\xff", "\xe2\x80"})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces"), "")
		raw, err := jsonwire.Append(nil, s)
		require.NoError(t, err)
		require.Equal(t, encode(t, s), string(raw))
		sameString(t, raw)
		sameString(t, fmt.Appendf(nil, `"%s"`, strings.Join(rapid.SliceOfN(escaped, 0, 40).Draw(t, "escaped"), "")))
	})
}
