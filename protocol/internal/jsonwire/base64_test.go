package jsonwire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

func TestBase64IsThatOfTheStandardLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 400 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		text := base64.StdEncoding.EncodeToString(data)
		for _, room := range []int{0, len(text), len(text) + 100} {
			out := jsonwire.AppendBase64(append(make([]byte, 0, 1+room), '>'), data)
			assert.Equal(t, ">"+text, string(out))
			for _, b := range out[len(out):cap(out)] {
				require.Zero(t, b, "nothing is written behind it")
			}
		}
		var have []byte
		require.NoError(t, jsonwire.Unmarshal([]byte(strconv.Quote(text)), &have, true))
		require.Equal(t, data, have)
	}
}

func TestBase64SaysWhereItIsWrong(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("base64"), 50))
	for i := range text {
		for _, wrong := range []string{"*", "=", "\r\n", "-", "é"} {
			damaged := text[:i] + wrong + text[i+1:]
			want, wantErr := base64.StdEncoding.DecodeString(damaged)
			raw, err := json.Marshal(damaged)
			require.NoError(t, err)
			var have []byte
			err = jsonwire.Unmarshal(raw, &have, true)
			if wantErr == nil {
				require.NoError(t, err, damaged)
				require.Equal(t, want, have)
				continue
			}
			require.Equal(t, wantErr, errors.Unwrap(err), damaged)
		}
	}
}
