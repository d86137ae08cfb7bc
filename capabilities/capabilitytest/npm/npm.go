// Package npm gives tests the MCP programs of others, from npm: real peers, in the
// versions that the lock file names. The smallest use:
//
//	peers := npm.Peers(t)
//	cmd := exec.Command(peers.Node, peers.Program("mcp-server-everything"), "stdio")
//
// They are installed once, without running their scripts, into the user's cache
// directory, and shared by all test processes. A test is skipped where Node.js or npm is
// missing, unless NEED_NPM is 1.
package npm

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed package.json
var manifest []byte

//go:embed package-lock.json
var lock []byte

const installLimit = 5 * time.Minute

// Installed is where the peers are.
type Installed struct {
	Dir  string // has node_modules in it
	Node string // the program that runs them
}

// Program is the file of one of their programs, to be run with Node.
func (i Installed) Program(name string) string {
	return filepath.Join(i.Dir, "node_modules", ".bin", name)
}

// Peers installs them when they are not there yet. It may be called by several tests, and
// several processes, at once.
func Peers(t testing.TB) Installed {
	t.Helper()
	i, err := install(t.Context())
	if err != nil {
		if os.Getenv("NEED_NPM") == "1" {
			t.Fatalf("peers from npm: %v", err)
		}
		t.Skipf("peers from npm: %v", err)
	}
	return i
}

func install(ctx context.Context) (i Installed, err error) {
	if i.Node, err = exec.LookPath("node"); err != nil {
		return i, fmt.Errorf("install Node.js: %w", err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return i, fmt.Errorf("install npm: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return i, err
	}
	cache = filepath.Join(cache, "executor-tests")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return i, err
	}
	sum := sha256.New()
	sum.Write(manifest)
	sum.Write(lock)
	i.Dir = filepath.Join(cache, "npm-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(i.Dir); err == nil {
		return i, nil
	}
	release, err := hold(filepath.Join(cache, "npm.lock"))
	if err != nil {
		return i, err
	}
	defer release()
	if _, err := os.Stat(i.Dir); err == nil { // somebody else was faster
		return i, nil
	}
	fresh, err := os.MkdirTemp(cache, "npm-new-")
	if err != nil {
		return i, err
	}
	defer os.RemoveAll(fresh)
	err = errors.Join(os.WriteFile(filepath.Join(fresh, "package.json"), manifest, 0o644),
		os.WriteFile(filepath.Join(fresh, "package-lock.json"), lock, 0o644))
	if err != nil {
		return i, err
	}
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		return i, fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return i, os.Rename(fresh, i.Dir) // whole from its first moment
}
