//go:build unix

package spawn

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]Limit{
		"nofile=1024":        {"nofile", 1024},
		" RLIMIT_AS = 4G ":   {"as", 4 << 30},
		"core=0":             {"core", 0},
		"fsize=10k":          {"fsize", 10 << 10},
		"cpu=unlimited":      {"cpu", NoLimit},
		"stack=infinity":     {"stack", NoLimit},
		"data=17179869183g":  {"data", 17179869183 << 30},
		"nproc=000000000001": {"nproc", 1},
	} {
		got, err := ParseLimit(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got)
		again, err := ParseLimit(got.String())
		assert.NoError(t, err)
		assert.Equal(t, got, again)
	}
	for _, text := range []string{"", "nofile", "=5", "nofile=", "nofile=-1", "nofile=1x", "nofile=k", "nofile=1 0", "as=17179869184g",
		"as=18446744073709551615", "as=18446744073709551616", "nofiles=5", "locks=5"} {
		_, err := ParseLimit(text)
		assert.Error(t, err, text)
	}
}

func TestParseRunAs(t *testing.T) {
	for text, want := range map[string]RunAs{
		"bob":       {User: "bob"},
		"bob:staff": {User: "bob", Group: "staff"},
		"1000:1000": {User: "1000", Group: "1000"},
	} {
		got, err := ParseRunAs(text)
		assert.NoError(t, err)
		assert.Equal(t, &want, got)
	}
	for _, text := range []string{"", ":", "bob:", ":staff", "bo b", "../bob"} {
		_, err := ParseRunAs(text)
		assert.ErrorContains(t, err, "want USER or USER:GROUP", text)
	}
}
