package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const token = `tok/en+"with<odd>&chars 0123`

func TestForms(t *testing.T) {
	r := New(token)
	for shift := range 3 {
		for behind := range 3 {
			text := strings.Repeat("x", shift) + token + strings.Repeat("y", behind)
			for name, encoding := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.RawURLEncoding} {
				out := r.String(encoding.EncodeToString([]byte(text)))
				assert.Contains(t, out, "[redacted]", "%s %d %d", name, shift, behind)
				assert.LessOrEqual(t, len(out), len("[redacted]")+9, "%s %d %d: %s", name, shift, behind, out)
			}
		}
	}
	quoted, err := json.Marshal(map[string]string{"a": token})
	require.NoError(t, err)
	for in, want := range map[string]string{
		"a " + token + " b":                           "a [redacted] b",
		token + token:                                 "[redacted][redacted]",
		"?t=" + url.QueryEscape(token) + "&x=1":       "?t=[redacted]&x=1",
		"/" + url.PathEscape(token) + "/":             "/[redacted]/",
		strings.ToLower("%") + "2f":                   "%2f",
		string(quoted):                                `{"a":"[redacted]"}`,
		fmt.Sprintf("%q", token):                      `"[redacted]"`,
		hex.EncodeToString([]byte(token)):             "[redacted]",
		fmt.Sprintf("%X", token):                      "[redacted]",
		token[:len(token)-1]:                          token[:len(token)-1],
		strings.ReplaceAll(string(quoted), "/", `\/`): `{"a":"[redacted]"}`,
	} {
		assert.Equal(t, want, r.String(in), in)
		assert.Equal(t, want, string(r.Bytes([]byte(in))), in)
		assert.Len(t, r.MaskString(in), len(in))
	}
	assert.Equal(t, "a "+strings.Repeat("*", len(token))+" b", r.MaskString("a "+token+" b"))
}

func TestOverlapping(t *testing.T) {
	r := New("abcdefgh", "efghijkl", "abcdefghij")
	assert.Equal(t, "-[redacted]-", r.String("-abcdefghijkl-"))
	assert.Equal(t, "-**********-", r.MaskString("-abcdefghij-"))
	assert.Equal(t, "aaaaaaa", New("aaaaaaaa").String("aaaaaaa"))
	assert.Equal(t, "[redacted]", New("aaaaaaaa").String("aaaaaaaaaaa"))
}

// What has no secret is not copied, and what is given is not changed.
func TestNoCopy(t *testing.T) {
	r := New("secret-0123456789")
	in := []byte("nothing is here, really nothing at all")
	assert.Same(t, &in[0], &r.Bytes(in)[0])
	assert.Same(t, &in[0], &r.Mask(in)[0])
	in = []byte("a secret-0123456789")
	assert.Equal(t, "a *****************", string(r.Mask(in)))
	assert.Equal(t, "a secret-0123456789", string(in))
}

func TestShortSecrets(t *testing.T) {
	r := New()
	assert.Equal(t, 2, r.Add("1234567", " short \n", "", "12345678"))
	assert.Equal(t, "1234567 short [redacted]", r.String("1234567 short 12345678"))
	assert.Equal(t, 1, r.Renew("abc"))
	assert.Zero(t, New(strings.Repeat("x", 1<<20)).Add(""))
}

func TestNil(t *testing.T) {
	var r *Redactor
	assert.Equal(t, "text", r.String("text"))
	assert.Equal(t, "text", string(r.NewStream(0).Mask([]byte("text"))))
	r.Hold("12345678")()
}

// White space around a secret is not looked for; a secret of several lines is also found by its lines.
func TestSecretOfSeveralLines(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END PRIVATE KEY-----\n"
	r := New(key)
	assert.Equal(t, "[redacted]", r.String(strings.TrimSpace(key)))
	assert.Equal(t, "[redacted]", r.String(strings.ReplaceAll(strings.TrimSpace(key), "\n", "\r\n")))
	assert.Equal(t, "  2: [redacted]", r.String("  2: MIIEvQIBADANBgkqhkiG9w0"))
	assert.Equal(t, "-----BEGIN PRIVATE KEY-----", r.String("-----BEGIN PRIVATE KEY-----"))
}

func TestSecretsChange(t *testing.T) {
	r := New("first-secret")
	r.Renew("second-secret")
	release := r.Hold("third-secret", "short")
	all := "first-secret second-secret third-secret"
	assert.Equal(t, "[redacted] [redacted] [redacted]", r.String(all))
	release()
	release()
	assert.Equal(t, "[redacted] [redacted] third-secret", r.String(all))
	for i := range renewed {
		r.Renew(fmt.Sprintf("renewed-%08d", i))
	}
	assert.Equal(t, "[redacted] second-secret third-secret", r.String(all))
	r.Renew("renewed-00000000") // the oldest is the newest again
	r.Renew("another-secret")
	assert.Equal(t, "[redacted] renewed-00000001", r.String("renewed-00000000 renewed-00000001"))
}

func TestConcurrently(t *testing.T) {
	r := New("first-secret")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := r.NewStream(0)
			for j := range 10 {
				r.Renew(fmt.Sprintf("renewed-%d-%d", i, j))
				defer r.Hold(fmt.Sprintf("held-%d-%d", i, j))()
				assert.Equal(t, "[redacted]", r.String("first-secret"))
				s.Mask([]byte("first-secret"))
			}
		})
	}
	wg.Wait()
}

func TestSensitive(t *testing.T) {
	for name, want := range map[string]bool{
		"GITHUB_TOKEN": true, "TOKEN": true, "AWS_SECRET_ACCESS_KEY": true, "api_key": true, "APIKEY": true, "DB_PASSWORD": true, "PGPASSWORD": true,
		"CLIENT_SECRET": true, "GPG_PASSPHRASE": true, "DB_PASS": true,
		"PATH": false, "": false, "KEYBOARD": false, "TOKENS_USED": false, "MONKEY": false, "COMPASS": false, "HOME_": false,
	} {
		assert.Equal(t, want, Sensitive(name), name)
	}
}
