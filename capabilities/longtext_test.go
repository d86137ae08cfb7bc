package capabilities

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type longTextInput struct {
	Text LongText `json:"text"`
	More LongText `json:"more,omitempty"`
}

// A long text is what the same member would be as a string.
func TestLongText(t *testing.T) {
	in, err := newInputType[longTextInput](nil)
	require.NoError(t, err)
	plain, err := newInputType[struct {
		Text string `json:"text"`
		More string `json:"more,omitempty"`
	}](nil)
	require.NoError(t, err)
	assert.JSONEq(t, string(plain.schema), string(in.schema))
	for _, raw := range []string{
		`{"text":""}`, `{"text":"a"}`, `{"text":"a\\"}`, `{"text":"\\\"","more":"\\\\"}`, `{"more":"m","text":"\"\"\\\""}`,
		`{"text":"\r\n\t\u00e9\ud83d\ude00\ud83d\/"}`, "{\"text\":\"é\xff\"}", `{"text":"x","more":null}`, ` { "text" : "x" } `,
		`{"text":"a","text":"b"}`, `{"text":"` + strings.Repeat(`line\n`, 1000) + `"}`, `{"text":"` + strings.Repeat(`\\`, maxLongText) + `"}`,
		`{}`, `{"text":1}`, `{"text":null}`, `{"text":["a"]}`, `{"text":"a}`, `{"text":"\q"}`, "{\"text\":\"a\nb\"}", `{"text":"\u12"}`, `{"text":"\`, `{"text":"a"`,
	} {
		got, err := in.decode([]byte(raw))
		want, wrong := plain.decode([]byte(raw))
		if wrong != nil {
			require.EqualError(t, err, wrong.Error(), clip([]byte(raw)))
			continue
		}
		require.NoError(t, err, clip([]byte(raw)))
		for text, want := range map[*LongText]string{&got.Text: want.Text, &got.More: want.More} {
			b, free := text.Bytes()
			assert.True(t, want == string(b), clip([]byte(raw)))
			free()
		}
	}
}

func TestLongTextConcurrently(t *testing.T) {
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			want := strings.Repeat(string(rune('a'+i))+"\n", 5000)
			raw, _ := json.Marshal(want)
			var text LongText
			if !assert.NoError(t, text.UnmarshalJSON(raw)) {
				return
			}
			for range 50 {
				b, free := text.Bytes()
				assert.True(t, want == string(b))
				free()
			}
		})
	}
	users.Wait()
}
