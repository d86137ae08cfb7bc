// Package examples_test builds the examples and runs each against its other end, as
// processes that talk over loopback.
package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	token   = "the-token-of-the-examples"
	patient = 20 * time.Second // for one process, from its start to its end
)

var programs = []string{"custom-tool", "embed", "own-brain"}

var binaries string // directory of the built examples

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := []string{"build", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, name := range programs {
		args = append(args, "./"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go %v: %v\n%s", args, err, out)
		return 1
	}
	binaries = dir
	os.Setenv("SHELL", "/bin/sh") // who runs the tests may have a profile that takes its time
	return m.Run()
}

func TestEveryMainIsShort(t *testing.T) {
	for _, name := range programs {
		source, err := os.ReadFile(filepath.Join(name, "main.go"))
		require.NoError(t, err)
		require.Less(t, bytes.Count(source, []byte("\n")), 60, "%s: an example fits on a screen", name)
	}
}

// What the README shows of the examples is what they are.
func TestREADMEShowsTheExamples(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	for file, mark := range map[string]string{"embed": "embed", "custom-tool": "tool"} {
		source, err := os.ReadFile(filepath.Join(file, "main.go"))
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(source), "// [start "+mark+"]\n")
		require.True(t, found, "no start mark in %s", file)
		core, _, found := strings.Cut(rest, "// [end "+mark+"]\n")
		require.True(t, found, "no end mark in %s", file)
		core = strings.TrimRight(core, "\t\n")
		require.LessOrEqual(t, strings.Count(core, "\n"), 12, "what a reader is shown of %s", file)
		require.Contains(t, string(readme), "```go\n"+core+"\n```")
	}
}

// Every path that the README links to is there.
func TestREADMELinks(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	links := regexp.MustCompile(`\]\(([^):]+)\)`).FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		path, section, _ := strings.Cut(link[1], "#")
		if path == "" {
			path = "README.md"
		}
		text, err := os.ReadFile(filepath.Join("..", path))
		if section == "" {
			_, err = os.Stat(filepath.Join("..", path))
		}
		require.NoError(t, err)
		if section != "" {
			require.Contains(t, strings.ReplaceAll(strings.ToLower(string(text)), " ", "-"), "#-"+section+"\n")
		}
	}
}

func TestCustomToolIsCalledByOwnBrain(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "results")
	brain := start(t, program("own-brain"), "-results", kept, "greet", `{"name":"Ada"}`)
	hands := start(t, program("custom-tool"), "-url", brain.url())

	bothEnd(brain, hands)
	require.Equal(t, "Hello, Ada!", brain.result().Content[0].Text)
	file, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.JSONEq(t, brain.stdout.String(), string(file), "what is printed is what was kept")
}

func TestEmbedWorksForOwnBrain(t *testing.T) {
	brain := start(t, program("own-brain"), "bash", `{"command":"echo hi; exit 3"}`)
	hands := start(t, program("embed"), "-url", brain.url())

	bothEnd(brain, hands)
	requireHiAnd3(t, brain.result())
	require.Equal(t, "the program goes on with its own work\nthe brain has no more work\n", hands.stdout.String())
}

// The brain in Node.js is written from PROTOCOL.md alone, so that it shows that the
// document is enough.
func TestEmbedWorksForABrainInNode(t *testing.T) {
	script := installNode(t)
	brain := start(t, "node", script, "echo hi; exit 3")
	hands := start(t, program("embed"), "-url", brain.url())

	bothEnd(brain, hands)
	requireHiAnd3(t, brain.result())
}

func TestCustomToolWorksForABrainInNode(t *testing.T) {
	script := installNode(t)
	brain := start(t, "node", script, `{"name":"Ada","loud":true}`)
	hands := start(t, program("custom-tool"), "-url", brain.url())

	bothEnd(brain, hands)
	require.Equal(t, "HELLO, ADA!", brain.result().Content[0].Text)
}

// Both brains refuse a credential that is not theirs, and the executor then gives up.
func TestWrongTokenIsRefused(t *testing.T) {
	t.Run("go", func(t *testing.T) { refuses(t, program("own-brain"), "greet") })
	t.Run("node", func(t *testing.T) { refuses(t, "node", installNode(t)) })
}

func refuses(t *testing.T, brain string, args ...string) {
	b := start(t, brain, args...)
	hands := exec.CommandContext(t.Context(), program("custom-tool"), "-url", b.url())
	hands.Env = append(environment(t), "EXECUTOR_TOKEN=wrong")
	out, err := hands.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode(), "%s", out)
	require.Contains(t, string(out), "credential rejected")
}

// The call, or the answer to it, is lost with the connection. It is run once all the
// same, and its result arrives.
func TestLostConnectionRunsTheCallOnce(t *testing.T) {
	brains := map[string]func(t *testing.T, command string) *process{
		"go": func(t *testing.T, command string) *process {
			input, err := json.Marshal(map[string]string{"command": command})
			require.NoError(t, err)
			return start(t, program("own-brain"), "bash", string(input))
		},
		"node": func(t *testing.T, command string) *process {
			return start(t, "node", installNode(t), command)
		},
	}
	for name, brain := range brains {
		for _, lost := range []string{"call", "answer"} {
			t.Run(name+", "+lost, func(t *testing.T) {
				t.Parallel()
				runs := filepath.Join(t.TempDir(), "runs")
				b := brain(t, "echo run >>"+runs+"; echo hi; exit 3")
				hands := start(t, program("embed"), "-url", cutOnce(t, b.url(), `"tool.call"`, 1, lost == "answer"))

				bothEnd(b, hands)
				requireHiAnd3(t, b.result())
				ran, err := os.ReadFile(runs)
				require.NoError(t, err)
				require.Equal(t, "run\n", string(ran))
			})
		}
	}
}

// The connection is lost when the result is stored and not acknowledged yet. It comes
// again, is acknowledged, and is stored and used once.
func TestLostAcknowledgementStoresTheResultOnce(t *testing.T) {
	// What the brain accepts is the session's readiness, and then the result.
	const ack, result = `"accepted":true`, 2
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		kept, runs := filepath.Join(dir, "results"), filepath.Join(dir, "runs")
		input, err := json.Marshal(map[string]string{"command": "echo run >>" + runs + "; echo hi; exit 3"})
		require.NoError(t, err)
		b := start(t, program("own-brain"), "-results", kept, "bash", string(input))
		hands := start(t, program("embed"), "-url", cutOnce(t, b.url(), ack, result, false))
		bothEnd(b, hands)
		requireHiAnd3(t, b.result())
		requireLines(t, runs, 1)
		requireLines(t, kept, 1)
	})
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		runs := filepath.Join(t.TempDir(), "runs")
		b := start(t, "node", installNode(t), "echo run >>"+runs+"; echo hi; exit 3")
		hands := start(t, program("embed"), "-url", cutOnce(t, b.url(), ack, result, false))
		bothEnd(b, hands)
		requireHiAnd3(t, b.result()) // which is one line
		requireLines(t, runs, 1)
	})
}

func requireLines(t *testing.T, path string, n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, n, bytes.Count(text, []byte("\n")), "%s: %s", path, text)
}

// cutOnce relays connections to brainURL and returns its own URL. A connection is cut
// when the brain sends mark for the nth time on it, once in all, before or after what
// it sends there is passed on.
func cutOnce(t *testing.T, brainURL, mark string, nth int, passOn bool) string {
	t.Helper()
	brain, err := url.Parse(brainURL)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	var cut atomic.Bool
	relay := func(hands, brain net.Conn) {
		defer running.Done()
		defer func() { _, _ = hands.Close(), brain.Close() }()
		var seen []byte
		for buf := make([]byte, 4096); ; {
			n, err := brain.Read(buf)
			seen = append(seen, buf[:n]...)
			lost := bytes.Count(seen, []byte(mark)) >= nth && cut.CompareAndSwap(false, true)
			if err != nil || lost && !passOn {
				return
			}
			if _, err := hands.Write(buf[:n]); err != nil || lost {
				return
			}
		}
	}
	running.Go(func() {
		for {
			hands, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			conn, err := net.Dial("tcp", brain.Host)
			if err != nil {
				_ = hands.Close()
				continue
			}
			running.Add(1)
			go relay(hands, conn)
			running.Go(func() {
				_, _ = io.Copy(conn, hands)
				_, _ = hands.Close(), conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait() // the processes have ended before
		require.True(t, cut.Load(), "no connection was cut")
	})
	return "ws://" + l.Addr().String() + brain.Path
}

func requireHiAnd3(t *testing.T, r result) {
	t.Helper()
	require.Equal(t, "succeeded", r.Outcome, "a command that exits non-zero did what was asked")
	require.True(t, r.IsError)
	require.Contains(t, r.Content[0].Text, "hi\n")
	require.Equal(t, "hi\n", r.Structured.Stdout)
	require.Equal(t, 3, r.Structured.ExitCode)
}

// result is what the brains print.
type result struct {
	Outcome string `json:"outcome"`
	IsError bool   `json:"is_error"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Structured struct {
		Stdout   string `json:"stdout"`
		ExitCode int    `json:"exit_code"`
	} `json:"structured"`
}

// process is a running example.
type process struct {
	t              *testing.T
	name           string
	stdout, stderr output
	ended          chan struct{} // closed when it has ended
	err            error         // of its end
}

func program(name string) string { return filepath.Join(binaries, name) }

// start starts an example; it is ended with the test at the latest.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	cmd := exec.CommandContext(ctx, path, args...) // kills by the process's id
	cmd.WaitDelay = time.Second
	cmd.Dir = t.TempDir()
	cmd.Env = append(environment(t), "BRAIN_TOKEN="+token, "EXECUTOR_TOKEN="+token)
	p := &process{t: t, name: filepath.Base(path), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, cmd.Start())
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { cancel(); <-p.ended })
	return p
}

// environment has a home of its own, so that nobody's shell profile is part of the test.
func environment(t *testing.T) []string {
	return append(os.Environ(), "HOME="+t.TempDir())
}

var printedURL = regexp.MustCompile(`ws://\S+\n`)

// url is the URL that a brain prints when it listens.
func (p *process) url() string {
	p.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if url := printedURL.FindString(p.stderr.String()); url != "" {
			return strings.TrimSpace(url)
		}
		select {
		case <-tick.C: // until the context of start ends the process
		case <-p.ended:
			require.FailNow(p.t, "it printed no URL", "%s: %v\n%s", p.name, p.err, p.stderr.String())
		}
	}
}

// bothEnd waits until both have ended with 0.
func bothEnd(a, b *process) {
	a.t.Helper()
	first, second := a, b
	select {
	case <-a.ended:
	case <-b.ended:
		first, second = b, a
	}
	for _, p := range []*process{first, second} { // when the first has failed, the second is not waited for
		<-p.ended
		require.NoError(a.t, p.err, "%s\n%s: %s\n%s: %s", p.name, a.name, a.stderr.String(), b.name, b.stderr.String())
	}
}

// result is the one line that a brain prints.
func (p *process) result() result {
	p.t.Helper()
	out := p.stdout.String()
	require.Equal(p.t, 1, strings.Count(out, "\n"), "want one line, got %q", out)
	var r result
	require.NoError(p.t, json.Unmarshal([]byte(out), &r), out)
	require.NotEmpty(p.t, r.Content, out)
	return r
}

// output may be read while a process writes to it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var node struct {
	once sync.Once
	dir  string
	err  error
}

// installNode copies the brain in Node.js, installs what it needs, once for all tests,
// and returns the script. Only a machine without Node.js may skip it.
func installNode(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no node on this machine")
	}
	node.once.Do(func() {
		node.dir = filepath.Join(binaries, "node")
		if node.err = os.Mkdir(node.dir, 0o700); node.err != nil {
			return
		}
		for _, name := range []string{"brain.js", "package.json", "package-lock.json"} {
			content, err := os.ReadFile(filepath.Join("own-brain", "node", name))
			if err == nil {
				err = os.WriteFile(filepath.Join(node.dir, name), content, 0o600)
			}
			if err != nil {
				node.err = err
				return
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		npm := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--prefer-offline")
		npm.Dir = node.dir
		npm.WaitDelay = time.Second
		if out, err := npm.CombinedOutput(); err != nil {
			node.err = fmt.Errorf("npm ci: %w\n%s", err, out)
		}
	})
	require.NoError(t, node.err)
	return filepath.Join(node.dir, "brain.js")
}
