//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-executor/executor/capabilities/internal/sandbox"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// TestMain lets the test's program be the one that tries to escape.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "escape" {
		os.Exit(tryEscapes(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "whoami" {
		text, _ := os.ReadFile("/proc/self/status")
		_, caps, _ := strings.Cut(string(text), "CapEff:\t")
		fmt.Printf("%d %s\n", os.Geteuid(), caps[:16])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// tryEscapes tries those of the names, and says which succeeded and why the others did not.
func tryEscapes(names []string) int {
	var t target
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, e := range slices.Concat(escapes, connections, offline, metadata) {
		if !slices.Contains(names, e.name) {
			continue
		}
		if err := os.Chdir(t.Root); err != nil {
			fmt.Println(err)
			return 1
		}
		says := succeeded
		if err := e.try(t); err != nil {
			says = "held: " + err.Error()
		}
		fmt.Printf("%s\t%s\n", e.name, says)
	}
	return 0
}

const succeeded = "ESCAPED"

func deadline() time.Time { return time.Now().Add(2 * time.Second) }

// world is a machine with something to steal, and a keeper whose children are confined.
type world struct {
	t      *testing.T
	target target
	keeper *spawn.Keeper
	group  *spawn.Group
	policy sandbox.Policy
}

const secret = "s3cret-in-the-world-outside"

// newWorld makes the machine without the sandbox.
func newWorld(t *testing.T, mode, network string) *world {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"root", "root-ro", "outside", "home/.ssh", "home/.local/bin", "state", "readable"} {
		require.NoError(t, os.MkdirAll(at(dir), 0o755))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(at("root/program"), program, 0o755))
	require.NoError(t, os.WriteFile(at("root/setuid"), program, 0o755))
	require.NoError(t, os.Chmod(at("root/setuid"), 0o4755|os.ModeSetuid))
	require.NoError(t, os.WriteFile(at("outside/program"), []byte("#!/bin/sh\nexit 0\n"), 0o755))
	for _, file := range []string{"root-ro/file", "outside/secret", "outside/precious", "home/.ssh/id", "home/.bashrc", "home/.gitconfig", "state/token", "readable/token", "readable/other"} {
		require.NoError(t, os.WriteFile(at(file), []byte(secret+"\n"), 0o600))
	}
	require.NoError(t, os.WriteFile(at("home/.gitconfig"), []byte("[user]\n\tname = A\n\temail = a@example.com\n"), 0o600))
	t.Setenv("HOME", at("home"))
	t.Setenv("WORLD_PASSWORD", secret)

	w := &world{t: t}
	w.target = target{Root: at("root"), Outside: at("outside"), Home: at("home"), State: at("state"), Token: at("readable/token"), Secret: secret,
		Parent: os.Getpid(), Name: "executor-test-" + filepath.Base(base) + fmt.Sprint(os.Getpid())}
	victim := exec.Command("sleep", "1000")
	victim.Dir = at("outside")
	require.NoError(t, victim.Start())
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	w.target.Victim = victim.Process.Pid
	w.target.TCP = w.listen("tcp", "127.0.0.1:0")
	w.target.Unix = w.listen("unix", at("outside/s"))
	w.listen("unix", at("state/control.sock"))
	w.listen("unix", "@"+w.target.Name)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for buf := make([]byte, 10); ; {
			_, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo([]byte("y"), from)
		}
	})
	t.Cleanup(func() {
		_ = udp.Close()
		wg.Wait()
	})
	w.target.UDP = udp.LocalAddr().String()
	shm := "/dev/shm/" + w.target.Name
	if os.WriteFile(shm, []byte(secret), 0o600) == nil {
		t.Cleanup(func() { _ = os.Remove(shm) })
	}
	w.policy = sandbox.Policy{Mode: mode, Network: network, Roots: []sandbox.Root{{Path: at("root")}, {Path: at("root-ro"), ReadOnly: true}},
		Read: []string{at("readable")}, Hidden: []string{at("state"), at("readable/token")}}
	return w
}

// listen accepts and forgets.
func (w *world) listen(network, address string) string {
	l, err := net.Listen(network, address)
	require.NoError(w.t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	w.t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// confine configures and opens the sandbox.
func (w *world) confine(l spawn.Launch) {
	l.Sandbox = &w.policy
	w.keeper = spawn.NewKeeper(spawn.Options{})
	require.NoError(w.t, w.keeper.Configure(l))
	require.NoError(w.t, w.keeper.Open(w.t.TempDir()).Sandbox)
	w.group = w.keeper.NewGroup()
	w.t.Cleanup(func() {
		assert.Empty(w.t, w.group.Close(time.Second))
		assert.Empty(w.t, w.keeper.Close())
	})
}

// run runs a command in the root and returns what it printed and its exit code.
func (w *world) run(input string, argv ...string) (string, int) {
	return w.runIn(w.target.Root, input, argv...)
}

func (w *world) runIn(dir, input string, argv ...string) (string, int) {
	w.t.Helper()
	var mu sync.Mutex
	var out bytes.Buffer
	p, err := w.group.Start(spawn.Command{Argv: argv, Dir: dir, Env: w.keeper.Environment(nil, spawn.Policy{}, nil), Input: true, Merge: true,
		Stdout: func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			out.Write(b)
		}})
	require.NoError(w.t, err, argv)
	_, _ = io.WriteString(p.Stdin(), input)
	_ = p.Stdin().Close()
	timer := time.AfterFunc(100*time.Second, func() { p.Kill() })
	defer timer.Stop()
	exit := p.Wait()
	mu.Lock()
	defer mu.Unlock()
	return out.String(), exit.Code
}

// escape tries a list from inside and returns what is said of each.
func (w *world) escape(list []escape) map[string]string {
	input, err := json.Marshal(w.target)
	require.NoError(w.t, err)
	argv := []string{w.target.Root + "/program", "escape"}
	for _, e := range list {
		argv = append(argv, e.name)
	}
	out, code := w.run(string(input), argv...)
	require.Zero(w.t, code, out)
	got := map[string]string{}
	for line := range strings.Lines(out) {
		name, says, _ := strings.Cut(strings.TrimSpace(line), "\t")
		got[name] = says
	}
	return got
}

// modes are those that work on this machine.
func modes(t *testing.T) []string {
	var list []string
	for _, mode := range []string{sandbox.Landlock, sandbox.Bubblewrap} {
		k := spawn.NewKeeper(spawn.Options{})
		err := k.Configure(spawn.Launch{Sandbox: &sandbox.Policy{Mode: mode, Roots: []sandbox.Root{{Path: t.TempDir()}}}})
		if err == nil {
			list = append(list, mode)
		} else {
			t.Logf("%s is not tested here: %v", mode, err)
		}
	}
	if len(list) == 0 {
		t.Skip("no sandbox works on this machine")
	}
	return list
}

// Whatever a command tries, it stays where it is put; and each attempt succeeds without the sandbox, or
// would for another reason than that there is nothing to find.
func TestEscapes(t *testing.T) {
	for _, mode := range modes(t) {
		for _, network := range []string{sandbox.Open, sandbox.None} {
			t.Run(mode+" "+network, func(t *testing.T) {
				w := newWorld(t, mode, network)
				w.confine(spawn.Launch{})
				list := escapes
				if network == sandbox.None {
					list = append(append(list[:len(list):len(list)], connections...), offline...)
				}
				if mode == sandbox.Bubblewrap {
					list = append(list[:len(list):len(list)], metadata...)
				}
				require.Greater(t, len(list), 60)
				got := w.escape(list)
				for _, e := range list {
					assert.True(t, strings.HasPrefix(got[e.name], "held: "), "%s: %s", e.name, got[e.name])
				}
				text, err := os.ReadFile(w.target.Outside + "/precious")
				require.NoError(t, err)
				assert.Equal(t, secret+"\n", string(text))
				names, err := filepath.Glob(w.target.Outside + "/*")
				require.NoError(t, err)
				assert.Len(t, names, 4, "%s", names)
				if network == sandbox.Open {
					for name, says := range w.escape(connections) {
						assert.Equal(t, succeeded, says, name)
					}
				}
			})
		}
	}
}
