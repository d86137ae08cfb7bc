package jsonwire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol/internal/jsonwire"
)

// seeds are what is hard to find by chance.
var seeds = []string{
	``, ` `, `null`, `true`, `-`, `-0`, `01`, `1.5`, `1e3`, `1E+`, `127`, `128`, `-129`, `9223372036854775808`, `18446744073709551615`,
	`""`, `"a`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx\ude00"`, `"\ud83d\u0041"`, `"\u2028\/\b\f\n\r\t\"\\"`, `"\u00zz"`, `"\x"`,
	"\"\xff\xfe\"", "\"caf\xc3\xa9 \xe2\x80\xa8\"", "\"\x01\"", "\"\xed\xa0\x80\"", `"aGk="`, `"aGk"`, `"aG\/k"`, `"aG\nk="`, `"2026-03-02T09:15:00Z"`,
	`[]`, `{}`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `[1 2]`, `{a:1}`, `[[[]],{}]`, ` { "a" : [ ] } `, `{}{}`, `[}`, `{]`,
	`{"session_id":"a","session\u005fid":"b","SESSION_ID":"c","sess\u0131on_id":"d"}`,
	`{"data":[104,105]}`, `{"data":[104,null,300]}`, `{"data":"aGk=","data":null}`,
	`{"content":[{"type":"a","text":"x"},{"type":"b"}],"content":[{"text":"y"}],"content":[null,{},{}]}`,
	`{"env":{"a":"1","a":null,"\u0062":"2"},"env":{"c":"3"},"metadata":{"a":1}}`,
	`{"lease":{"fencing_token":"12"}}`, `{"mcp_servers":[{"transport":{"args":"x"}}]}`, `{"exit_code":1,"exit_code":null,"offset":2}`,
	`{"left":{"left":{"name":"x"},"trees":[{"name":"y"}]},"map":{"a":{"left":null}}}`,
	`{"I":1,"i":2,"I8":-128,"U8":256,"U":-0,"Ptr":3,"i64":-9223372036854775808}`, `{"text":"x","texts":["y"],"shout":[1, 2],"upper":"u","read_only":null}`,
	`{"n":"1","s":"\"x\"","p":null}`, `{"Plain":"p","Base":"b","I8":1}`, `{"any":{"a":[1,"x",null]},"int_map":{"1":"a"},"number":1.50,"raws":[ 1 , {"a" : 2}]}`,
	`{"pointers":"x","strs":["a",null],"slice_ptr":[],"raw_pointer":null,"named8":"aGk=","named_blob":"aGk="}`,
	strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1001) + strings.Repeat("]", 1001), strings.Repeat(`{"a":`, 1001),
}

// corpus is the seeds and every golden message.
func corpus(t testing.TB) (all [][]byte) {
	for _, s := range seeds {
		all = append(all, []byte(s))
	}
	files, _ := filepath.Glob("../../../testdata/wire/*.json")
	require.NotEmpty(t, files)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		var exchange map[string]struct{ Params, Result json.RawMessage }
		_ = json.Unmarshal(raw, &exchange)
		all = append(all, exchange["request"].Params, exchange["response"].Result)
	}
	return all
}

// tooDeep: the scanner ends at 1000, encoding/json at 10000.
func tooDeep(data []byte) bool {
	return bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > 1000
}

func FuzzScan(f *testing.F) {
	for _, data := range corpus(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		end := jsonwire.SkipValue(data, 0)
		valid := end >= 0 && jsonwire.SkipSpace(data, end) == len(data)
		if valid != json.Valid(data) && !tooDeep(data) {
			t.Fatalf("%q: valid %v, as encoding/json has it %v", data, valid, !valid)
		}
		var names, values []string
		object := jsonwire.ForEachMember(data, func(name, value []byte) {
			names, values = append(names, string(name)), append(values, string(value))
		})
		if object != (valid && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))) && !tooDeep(data) {
			t.Fatalf("%q: an object %v", data, object)
		}
		if !object {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		for i, raw := range names {
			var name string
			if err := json.Unmarshal([]byte(`"`+raw+`"`), &name); err != nil {
				t.Fatal(err)
			}
			names[i] = name
		}
		last := map[string]json.RawMessage{}
		for i, name := range names {
			last[name] = json.RawMessage(values[i])
		}
		if len(names) > 0 && !reflect.DeepEqual(last, want) {
			t.Fatalf("%q: got %q", data, last)
		}
	})
}

func FuzzUnmarshal(f *testing.F) {
	for i, data := range corpus(f) {
		f.Add(data, byte(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, which byte) {
		if !tooDeep(data) {
			sameUnmarshal(t, types[int(which)%len(types)], data)
		}
	})
}

func TestUnmarshalIsThatOfEncodingJSON(t *testing.T) {
	for _, data := range corpus(t) {
		for _, typ := range types {
			if !tooDeep(data) {
				sameUnmarshal(t, typ, data)
			}
		}
	}
}

// sameUnmarshal decodes data into a new value and then over what it has become,
// beside encoding/json.
func sameUnmarshal(t *testing.T, typ reflect.Type, data []byte) {
	want, have, valid := reflect.New(typ), reflect.New(typ), reflect.New(typ)
	for range 2 {
		wantErr := json.Unmarshal(data, want.Interface())
		haveErr := jsonwire.Unmarshal(data, have.Interface(), false)
		if (wantErr == nil) != (haveErr == nil) {
			t.Fatalf("%s from %q: error %v, want %v", typ, data, haveErr, wantErr)
		}
		var syntax *json.SyntaxError
		if errors.As(wantErr, &syntax) && !json.Valid(data) {
			var e *jsonwire.SyntaxError
			if !errors.As(haveErr, &e) || e.Offset != int(syntax.Offset) {
				t.Fatalf("%s from %q: error %v, want %v", typ, data, haveErr, wantErr)
			}
			return
		}
		err := jsonwire.Unmarshal(data, valid.Interface(), true)
		if wantErr != nil {
			var e *jsonwire.TypeError
			if !errors.As(haveErr, &e) || e.Want == "" || e.Got == "" {
				t.Fatalf("%s from %q: %v", typ, data, haveErr)
			}
			if err == nil || err.Error() != haveErr.Error() {
				t.Fatalf("%s from %q: checked before: %v, otherwise %v", typ, data, err, haveErr)
			}
			return // what had been read by then differs
		}
		if !reflect.DeepEqual(want.Interface(), have.Interface()) || err != nil || !reflect.DeepEqual(have.Interface(), valid.Interface()) {
			t.Fatalf("%s from %q:\n%#v (%#v, %v), want\n%#v", typ, data, have.Elem(), valid.Elem(), err, want.Elem())
		}
	}
}

func FuzzAppend(f *testing.F) {
	for i, data := range corpus(f) {
		f.Add(data, byte(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, which byte) {
		appendBoth(t, types[int(which)%len(types)], data)
	})
}

func TestAppendIsThatOfEncodingJSON(t *testing.T) {
	for _, data := range corpus(t) {
		for _, typ := range types {
			appendBoth(t, typ, data)
		}
	}
}

// appendBoth writes what data decodes to, and what it fills a value with.
func appendBoth(t *testing.T, typ reflect.Type, data []byte) {
	v := reflect.New(typ)
	if json.Unmarshal(data, v.Interface()) != nil {
		v.Elem().SetZero()
	}
	sameAppend(t, v)
	v.Elem().SetZero()
	rest := filler(data)
	rest.fill(v.Elem(), 0)
	sameAppend(t, v)
}

// sameAppend writes what v points to, and v, beside encoding/json.
func sameAppend(t *testing.T, v reflect.Value) {
	for _, v := range []any{v.Elem().Interface(), v.Interface()} {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		wantErr := e.Encode(v)
		have, err := jsonwire.Append([]byte("before "), v)
		if wantErr != nil {
			if err == nil || string(have) != "before " {
				t.Fatalf("%#v: %q, %v; want error %v", v, have, err, wantErr)
			}
			continue
		}
		if err != nil || string(have) != "before "+strings.TrimSuffix(want.String(), "\n") {
			t.Fatalf("%#v: %v\n%s, want\n%s", v, err, have, want.String())
		}
	}
}

// filler fills values with what it consists of, so that strings may be anything.
type filler []byte

func (f *filler) byte() byte {
	if len(*f) == 0 {
		return 0
	}
	b := (*f)[0]
	*f = (*f)[1:]
	return b
}

func (f *filler) bytes() []byte {
	n := min(int(f.byte()), len(*f))
	if n == 0xff {
		return nil
	}
	b := (*f)[:n]
	*f = (*f)[n:]
	return bytes.Clone(b)
}

func (f *filler) fill(v reflect.Value, depth int) {
	n := int(f.byte() % 3)
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(f.bytes()))
	case reflect.Bool:
		v.SetBool(n == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(int8(f.byte())) << f.byte())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(uint64(f.byte()) << f.byte())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.byte()) / float64(f.byte()))
	case reflect.Pointer:
		if n > 0 && depth < 5 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		switch {
		case n == 0 || depth >= 5:
		case v.Type() == reflect.TypeFor[json.RawMessage]() && n == 1:
			b, _ := json.Marshal(map[string]any{string(f.bytes()): []int{1}})
			v.SetBytes(append(append([]byte(" "), b...), '\n'))
		case v.Type().Elem().Kind() == reflect.Uint8:
			v.SetBytes(f.bytes())
		default:
			v.Set(reflect.MakeSlice(v.Type(), n-1, n))
			for i := range v.Len() {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		if n == 0 || depth >= 5 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth+1)
			f.fill(elem, depth+1)
			if key.Kind() != reflect.String || utf8.ValidString(key.String()) { // encoding/json sorts others as they come out
				v.SetMapIndex(key, elem)
			}
		}
	case reflect.Interface:
		if v.NumMethod() == 0 && n > 0 {
			v.Set(reflect.ValueOf(string(f.bytes())))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				f.fill(v.Field(i), depth)
			}
		}
	}
}
