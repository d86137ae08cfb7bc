package cli

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	minToken     = 16       // characters; anything shorter is no secret
	maxTokenFile = 64 << 10 // bytes
)

// ReadToken reads a token file. The errors say what to do; they never contain what
// is in the file.
func ReadToken(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("token file %s does not exist; put the brain's token into it, mode 0600, or name another with --token-file", path)
	}
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	if !info.Mode().IsRegular() { // before it is opened: a FIFO would wait
		return "", fmt.Errorf("token file %s is %s, not a file; name the file with the token in --token-file", path, kind(info.Mode()))
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("token file %s cannot be read by this user; give it the right owner, mode 0600", path)
	}
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	if len(raw) > maxTokenFile {
		return "", fmt.Errorf("token file %s is larger than 64 KiB, so it is none; put only the token into it", path)
	}
	token, err := CheckToken(raw)
	if err != nil {
		return "", fmt.Errorf("token file %s %w", path, err)
	}
	return token, nil
}

// CheckToken takes the token out of what a file or a command gave.
func CheckToken(raw []byte) (string, error) {
	token := string(bytes.TrimRight(raw, "\r\n"))
	switch {
	case strings.TrimSpace(token) == "":
		return "", errors.New("is empty; put the brain's token into it")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", errors.New("has spaces, line ends or other characters in it that no token has; put only the token into it")
	case len(token) < minToken:
		return "", fmt.Errorf("has a token of less than %d characters; use one that cannot be guessed", minToken)
	}
	return token, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// TokenFileWarning says that others can read a token file; "" when they cannot. What
// systemd passes as a credential is protected by its directory.
func TokenFileWarning(path string) string {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		return ""
	}
	return fmt.Sprintf("token file %s has mode %04o, so that others can use the token; run: chmod 600 %s", path, info.Mode().Perm(), path)
}

// EnsureToken reads the token file, and makes one with a new token when there is
// none.
func EnsureToken(path string) (token string, made bool, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		token, err = ReadToken(path)
		return token, false, err
	}
	token = rand.Text() + rand.Text()                                  // 260 bits
	if err = writeNew(path, token+"\n"); errors.Is(err, fs.ErrExist) { // made by somebody else just now
		token, err = ReadToken(path)
		return token, false, err
	}
	if err != nil {
		return "", false, fmt.Errorf("make token file: %w", err)
	}
	return token, true, nil
}

// writeNew makes a file for its owner only, which is whole from its first moment.
func writeNew(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.WriteString(f, content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // unlike a rename it replaces nothing
}
