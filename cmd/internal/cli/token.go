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
func ReadToken(path string) (string, error) { return ReadSecret(path, "token", "--token-file") }

// ReadSecret is ReadToken for another secret, which has that name and whose file is
// given by that flag.
func ReadSecret(path, name, flag string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s file %s does not exist; put the brain's %s into it, mode 0600, or name another with %s", name, path, name, flag)
	}
	if err != nil {
		return "", fmt.Errorf("%s file: %w", name, err)
	}
	if !info.Mode().IsRegular() { // before it is opened: a FIFO would wait
		return "", fmt.Errorf("%s file %s is %s, not a file; name the file with the %s in %s", name, path, kind(info.Mode()), name, flag)
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 && runtime.GOOS != "windows" {
		return "", fmt.Errorf("%s file %s has mode %04o, so that everybody can put another %s into it; run: chmod 600 %s", name, path, mode, name, path)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("%s file %s cannot be read by this user; give it the right owner, mode 0600", name, path)
	}
	if err != nil {
		return "", fmt.Errorf("%s file: %w", name, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("%s file: %w", name, err)
	}
	if len(raw) > maxTokenFile {
		return "", fmt.Errorf("%s file %s is larger than 64 KiB, so it is none; put only the %s into it", name, path, name)
	}
	token, err := checkSecret(raw, name)
	if err != nil {
		return "", fmt.Errorf("%s file %s %w", name, path, err)
	}
	return token, nil
}

// CheckToken takes the token out of what a file or a command gave.
func CheckToken(raw []byte) (string, error) { return checkSecret(raw, "token") }

func checkSecret(raw []byte, name string) (string, error) {
	token := string(bytes.TrimRight(raw, "\r\n"))
	switch {
	case strings.TrimSpace(token) == "":
		return "", fmt.Errorf("is empty; put the brain's %s into it", name)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", fmt.Errorf("has spaces, line ends or other characters in it that no %s has; put only the %s into it", name, name)
	case len(token) < minToken:
		return "", fmt.Errorf("has %s of less than %d characters; use one that cannot be guessed", article(name), minToken)
	}
	return token, nil
}

func article(name string) string {
	if strings.ContainsAny(name[:1], "aeiou") {
		return "an " + name
	}
	return "a " + name
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
func TokenFileWarning(path string) string { return SecretFileWarning(path, "token") }

// SecretFileWarning is TokenFileWarning for another secret of that name.
func SecretFileWarning(path, name string) string {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		return ""
	}
	return fmt.Sprintf("%s file %s has mode %04o, so that others can use the %s; run: chmod 600 %s", name, path, info.Mode().Perm(), name, path)
}

// EnsureToken reads the token file, and makes one with a new token when there is
// none.
func EnsureToken(path string) (token string, made bool, err error) {
	return EnsureSecret(path, "token", "--token-file")
}

// EnsureSecret is EnsureToken for another secret, as ReadSecret is.
func EnsureSecret(path, name, flag string) (token string, made bool, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		token, err = ReadSecret(path, name, flag)
		return token, false, err
	}
	token = rand.Text() + rand.Text()                                  // 260 bits
	if err = writeNew(path, token+"\n"); errors.Is(err, fs.ErrExist) { // made by somebody else just now
		token, err = ReadSecret(path, name, flag)
		return token, false, err
	}
	if err != nil {
		return "", false, fmt.Errorf("make %s file: %w", name, err)
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
