package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goodToken = "0123456789abcdef"

func tokenFile(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

func TestReadToken(t *testing.T) {
	for _, c := range []struct{ content, token, says string }{
		{goodToken, goodToken, ""},
		{goodToken + "\n", goodToken, ""},
		{goodToken + "\r\n", goodToken, ""},
		{"", "", "is empty; put"},
		{" \n\n", "", "is empty; put"},
		{goodToken[1:] + "\n", "", "less than 16 characters"},
		{goodToken + "\n" + goodToken + "\n", "", "only the token"},
		{"two words of a token", "", "only the token"},
		{goodToken + "\x00", "", "only the token"},
		{goodToken + "ü", "", "only the token"},
		{strings.Repeat("x", maxTokenFile), strings.Repeat("x", maxTokenFile), ""},
		{strings.Repeat("x", maxTokenFile+1), "", "larger than 64 KiB"},
	} {
		path := tokenFile(t, c.content, 0o600)
		token, err := ReadToken(path)
		assert.Equal(t, c.token, token)
		if c.says == "" {
			assert.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, path, "it names the file")
		if len(strings.TrimSpace(c.content)) > 0 {
			assert.NotContains(t, err.Error(), c.content, "and not what is in it")
		}
	}
}

func TestReadTokenOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadToken(filepath.Join(dir, "none"))
	assert.ErrorContains(t, err, "does not exist; put the brain's token into it")
	_, err = ReadToken(dir)
	assert.ErrorContains(t, err, "is a directory, not a file")
	_, err = ReadToken(os.DevNull)
	assert.ErrorContains(t, err, "is a device, not a file")
}

func TestTokenFileWarning(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o660} {
		path := tokenFile(t, goodToken, mode)
		w := TokenFileWarning(path)
		assert.Contains(t, w, "mode 0"+strings.TrimLeft(modeText(mode), "0"))
		assert.Contains(t, w, "chmod 600 "+path)
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		assert.Empty(t, TokenFileWarning(tokenFile(t, goodToken, mode)))
	}
	assert.Empty(t, TokenFileWarning(filepath.Join(t.TempDir(), "none")))

	path := tokenFile(t, goodToken, 0o440)
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(path))
	assert.Empty(t, TokenFileWarning(path), "systemd protects the directory")
}

func modeText(m os.FileMode) string {
	const digits = "01234567"
	return string([]byte{digits[m>>6&7], digits[m>>3&7], digits[m&7]})
}

func TestEnsureToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	var all sync.WaitGroup
	var mu sync.Mutex
	tokens, makers := map[string]int{}, 0
	for range 8 { // at once: one makes it, nobody gets another
		all.Go(func() {
			token, made, err := EnsureToken(path)
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, err)
			tokens[token]++
			if made {
				makers++
			}
		})
	}
	all.Wait()
	assert.Len(t, tokens, 1)
	assert.Equal(t, 1, makers)
	token, made, err := EnsureToken(path)
	require.NoError(t, err)
	assert.False(t, made)
	assert.GreaterOrEqual(t, len(token), 40)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing else is left")
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}

	_, _, err = EnsureToken(filepath.Join(t.TempDir(), "no", "dir"))
	assert.ErrorContains(t, err, "make token file")
	_, _, err = EnsureToken(tokenFile(t, "short", 0o600))
	assert.ErrorContains(t, err, "less than 16", "one that is there is never replaced")
}
