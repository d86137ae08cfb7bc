package capabilities

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQuoteName(t *testing.T) {
	for name, want := range map[string]string{
		"plain.txt":         "plain.txt",
		"mit leer.txt":      "mit leer.txt",
		"café/日本.txt":       "café/日本.txt",
		"it's":              "it's",
		`back\slash`:        `back\slash`,
		"~/x":               "~/x",
		"$HOME":             "$HOME",
		"caf\xe9.txt":       `$'caf\xe9.txt'`, // case 79
		"bad\xff.txt":       `$'bad\xff.txt'`,
		"two\nlines":        `$'two\nlines'`,
		"a\tb\rc":           `$'a\tb\rc'`,
		"\x1b[31mred":       `$'\x1b[31mred'`,
		"it's\x01":          `$'it\'s\x01'`,
		"\xe9\\":            `$'\xe9\\'`,
		"c1\u0085":          `$'c1\xc2\x85'`,
		"exe\u202etxt":      `$'exe\xe2\x80\xaetxt'`,
		"\ufeffbom":         `$'\xef\xbb\xbfbom'`,
		"$'x'":              `$'$\'x\''`, // a plain name that looks like a quoted one
		"$''":               `$'$\'\''`,
		"$'":                "$'",
		"dir\xff/sub\n/f":   `$'dir\xff/sub\n/f'`,
		"cut\xe2\x80":       `$'cut\xe2\x80'`,
		"replacement\ufffd": "replacement\ufffd",
	} {
		assert.Equal(t, want, QuoteName(name))
		assert.Equal(t, name, UnquoteName(want))
	}
}

func TestUnquoteName(t *testing.T) {
	for text, want := range map[string]string{
		`$'\e\E\a\b\f\v\n'`: "\x1b\x1b\a\b\f\v\n",
		`$'\"\?\'\\'`:       `"?'\`,
		`$'\101\7\0501'`:    "A\a(1",
		`$'\x41\x4g\x4'`:    "A\x04g\x04",
		`$'\xzz'`:           `\xzz`,
		`$'\u00e9\u4'`:      "é\x04",
		`$'\U0001F600'`:     "😀",
		`$'\cA\c?'`:         "\x01\x7f",
		`$'\q\'`:            `\q\`,
		`$'a'b'`:            `a'b`,
		`$'open`:            `$'open`,
		`'x'`:               `'x'`,
		"":                  "",
	} {
		assert.Equal(t, want, UnquoteName(text), text)
	}
}

// What QuoteName writes is text that shows no control character, and it comes
// back byte for byte.
func TestQuoteNameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringMatching(`(\$')?[\\'a-f0-9xu\x00-\x1f]{0,20}'?`),
		).Draw(t, "name")
		quoted := QuoteName(name)
		if !utf8.ValidString(quoted) || strings.ContainsFunc(quoted, unicode.IsControl) {
			t.Fatalf("%q is not plain", quoted)
		}
		if back := UnquoteName(quoted); back != name {
			t.Fatalf("%q came back as %q by way of %s", name, back, quoted)
		}
	})
}

// bash reads our quoting as we mean it.
func TestBashReadsQuoteName(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Log("no bash here")
		return
	}
	for _, name := range []string{"caf\xe9.txt", "two\nlines", "it's \\ \x01f", "\u202ex", "$'x'", "\x7f7"} {
		out, err := exec.Command(bash, "-c", "printf %s "+QuoteName(name)).Output()
		require.NoError(t, err)
		assert.Equal(t, name, string(out))
	}
}
