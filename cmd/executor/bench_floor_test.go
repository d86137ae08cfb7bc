//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gorilla/websocket"
	"github.com/sourcegraph/jsonrpc2"
	jsonrpc2ws "github.com/sourcegraph/jsonrpc2/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What the executor is measured beside, written by hand with nothing that is not needed.

// spawnSource is a loop of posix_spawn with pipes. It reads how often, a number in a line, and prints how
// many nanoseconds each took from before the pipes until all is read and waited for.
const spawnSource = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static long long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
int main(int argc, char **argv) {
	char line[64], buf[65536];
	while (fgets(line, sizeof line, stdin)) {
		for (int n = atoi(line); n > 0; n--) {
			long long began = now();
			int out[2], err[2];
			if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) return 2;
			posix_spawn_file_actions_t a;
			posix_spawn_file_actions_init(&a);
			posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
			posix_spawn_file_actions_adddup2(&a, out[1], 1);
			posix_spawn_file_actions_adddup2(&a, err[1], 2);
			pid_t pid;
			if (posix_spawn(&pid, argv[1], &a, NULL, argv + 1, environ)) return 3;
			posix_spawn_file_actions_destroy(&a);
			close(out[1]); close(err[1]);
			while (read(out[0], buf, sizeof buf) > 0) {}
			while (read(err[0], buf, sizeof buf) > 0) {}
			int status;
			if (waitpid(pid, &status, 0) != pid) return 4;
			close(out[0]); close(err[0]);
			printf("%lld\n", now() - began);
		}
		printf("end\n");
		fflush(stdout);
	}
	return 0;
}
`

// cSpawner compiles and starts the loop. The benchmark is skipped where there is no C compiler.
func cSpawner(b *testing.B, program string) func(n int) timings {
	cc, err := exec.LookPath("cc")
	if err != nil {
		b.Skip("no cc here to compile what it is measured beside")
	}
	dir := b.TempDir()
	source := filepath.Join(dir, "spawn.c")
	require.NoError(b, os.WriteFile(source, []byte(spawnSource), 0o600))
	text, err := exec.Command(cc, "-O2", "-o", filepath.Join(dir, "spawn"), source).CombinedOutput()
	require.NoError(b, err, "%s", text)
	p := exec.Command(filepath.Join(dir, "spawn"), program)
	p.Env = benchEnv()
	in, err := p.StdinPipe()
	require.NoError(b, err)
	out, err := p.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, p.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = p.Wait()
	})
	lines := bufio.NewScanner(out)
	return func(n int) timings {
		_, err := fmt.Fprintln(in, n)
		require.NoError(b, err)
		var s timings
		for lines.Scan() && lines.Text() != "end" {
			took, err := strconv.ParseInt(lines.Text(), 10, 64)
			require.NoError(b, err)
			s = append(s, time.Duration(took))
		}
		require.Len(b, s, n)
		return s.sorted()
	}
}

// bareShell is a bash that reads commands from a pipe, to its end. run returns when one has ended.
func bareShell(b *testing.B, dir string) (run func(command string)) {
	p := exec.Command("bash")
	p.Dir, p.Env = dir, benchEnv()
	in, err := p.StdinPipe()
	require.NoError(b, err)
	out, err := p.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, p.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = p.Wait()
	})
	lines := bufio.NewScanner(out)
	return func(command string) {
		_, err := io.WriteString(in, command+"\necho $?\n")
		require.NoError(b, err)
		require.True(b, lines.Scan() && lines.Text() == "0")
	}
}

// monotonic is a time that all processes of the machine have in common.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// tellTime prints the time, n times, as a program does that has something to say now and then.
func tellTime() {
	n, _ := strconv.Atoi(os.Args[1])
	for range n {
		time.Sleep(2 * time.Millisecond)
		_, _ = fmt.Printf("%d\n", monotonic())
	}
}

// floorLog is what the floor has between a pipe and its connection: the bytes that are not sent yet, of
// which it keeps as many as the executor does, and then lets the program wait.
type floorLog struct {
	mu         sync.Mutex
	changed    sync.Cond
	buf        [1 << 20]byte
	start, end int
	closed     bool
}

func (r *floorLog) fill(from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		for rest := buf[:n]; len(rest) > 0; {
			for r.end-r.start == len(r.buf) {
				r.changed.Wait()
			}
			at := r.end % len(r.buf)
			put := copy(r.buf[at:min(len(r.buf), at+len(r.buf)-(r.end-r.start))], rest)
			rest, r.end = rest[put:], r.end+put
			r.changed.Broadcast()
		}
		r.closed = r.closed || err != nil
		r.changed.Broadcast()
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take waits for bytes, and appends at most n of them; nothing comes at the end.
func (r *floorLog) take(to []byte, n int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.end == r.start && !r.closed {
		r.changed.Wait()
	}
	n = min(n, r.end-r.start)
	for n > 0 {
		at := r.start % len(r.buf)
		part := r.buf[at:min(len(r.buf), at+n)]
		to = append(to, part...)
		r.start, n = r.start+len(part), n-len(part)
	}
	r.changed.Broadcast()
	return to
}

// playFloor is the other end of a floor.
func playFloor(role, url string) {
	d := websocket.Dialer{WriteBufferSize: 72 << 10, ReadBufferSize: 4 << 10}
	ws, _, err := d.Dial(url, nil)
	if err != nil {
		panic(err)
	}
	defer ws.Close()
	if role == "stock" {
		playStock(ws)
		return
	}
	for {
		_, text, err := ws.ReadMessage()
		if err != nil {
			return
		}
		argv := strings.Split(string(text), "\x00")
		p := exec.Command(argv[0], argv[1:]...)
		p.Env = benchEnv()
		if argv[0] == os.Args[0] {
			p.Env = append(p.Env, "BENCH_ROLE=clock")
		}
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		p.Stdout = w
		if err := p.Start(); err != nil {
			panic(err)
		}
		_ = w.Close()
		log := &floorLog{}
		log.changed.L = &log.mu
		go log.fill(r)
		frame := make([]byte, 0, 512<<10)
		data := make([]byte, 0, 256<<10)
		for more := true; more; {
			switch role {
			case "binary": // as fast as they go
				frame = log.take(frame[:0], 64<<10)
				more = len(frame) > 0
				err = ws.WriteMessage(websocket.BinaryMessage, frame)
			case "base64": // as they are asked for
				if _, _, err = ws.ReadMessage(); err != nil {
					return
				}
				data = log.take(data[:0], 256<<10)
				more = len(data) > 0
				frame = append(frame[:0], `{"jsonrpc":"2.0","id":"1","result":{"data":"`...)
				frame = base64.StdEncoding.AppendEncode(frame, data)
				frame = append(frame, `"}}`...)
				err = ws.WriteMessage(websocket.TextMessage, frame)
			}
			if err != nil {
				panic(err)
			}
		}
		_ = r.Close()
		_ = p.Wait()
	}
}

// floor is the near end of one.
type floor struct {
	b   *testing.B
	ws  *websocket.Conn
	pid int
	buf []byte
}

func newFloor(b *testing.B, role string) *floor {
	conns := make(chan *websocket.Conn, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{ReadBufferSize: 72 << 10}
		if ws, err := up.Upgrade(w, r, nil); err == nil {
			conns <- ws
		}
	}))
	p := benchRole(role, "ws"+strings.TrimPrefix(server.URL, "http"))
	p.Stderr = os.Stderr
	require.NoError(b, p.Start())
	f := &floor{b: b, ws: <-conns, pid: p.Process.Pid, buf: make([]byte, 512<<10)}
	b.Cleanup(func() {
		_ = f.ws.Close()
		_ = p.Wait()
		server.Close()
	})
	return f
}

func (f *floor) start(argv ...string) {
	require.NoError(f.b, f.ws.WriteMessage(websocket.TextMessage, []byte(strings.Join(argv, "\x00"))))
}

// next reads a message.
func (f *floor) next() []byte {
	_, r, err := f.ws.NextReader()
	require.NoError(f.b, err)
	n := 0
	for {
		if n == len(f.buf) {
			f.buf = append(f.buf, make([]byte, n)...)
		}
		m, err := r.Read(f.buf[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return f.buf[:n]
		}
		require.NoError(f.b, err)
	}
}

// pushed takes binary messages until an empty one.
func (f *floor) pushed(take func([]byte)) {
	for {
		data := f.next()
		if len(data) == 0 {
			return
		}
		take(data)
	}
}

// polled asks for pieces until one is empty.
func (f *floor) polled(take func([]byte)) {
	data := make([]byte, 256<<10)
	for cursor := 0; ; {
		require.NoError(f.b, f.ws.WriteMessage(websocket.TextMessage,
			fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"1","method":"process.read","params":{"session_id":"s","process_id":"p","cursor":%d,"max_bytes":262144,"wait_ms":20000}}`, cursor)))
		text := f.next()
		_, rest, _ := strings.Cut(string(text[:min(len(text), 100)]), `"data":"`)
		encoded := text[min(len(text), 100)-len(rest) : len(text)-3]
		n, err := base64.StdEncoding.Decode(data, encoded)
		require.NoError(f.b, err)
		if n == 0 {
			return
		}
		cursor += n
		take(data[:n])
	}
}

func (f *floor) cpu() float64 { return cpuOf(f.pid) + cpuOf(os.Getpid()) }

// stockData is what both ends of the stock connection send.
type stockData struct {
	Data []byte `json:"data"`
}

// playStock has `cat` in a PTY behind a stock connection.
func playStock(ws *websocket.Conn) {
	p := exec.Command("cat")
	p.Env = benchEnv()
	terminal, err := pty.Start(p)
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	handle := jsonrpc2.HandlerWithError(func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
		var d stockData
		if err := json.Unmarshal(*r.Params, &d); err != nil {
			return nil, err
		}
		_, err := terminal.Write(d.Data)
		return map[string]bool{"accepted": true}, err
	})
	conn := jsonrpc2.NewConn(context.Background(), jsonrpc2ws.NewObjectStream(ws), jsonrpc2.AsyncHandler(handle))
	go func() {
		defer close(done)
		buf := make([]byte, 32<<10)
		for {
			n, err := terminal.Read(buf)
			if err != nil {
				return
			}
			if conn.Notify(context.Background(), "output", stockData{buf[:n]}) != nil {
				return
			}
		}
	}()
	<-conn.DisconnectNotify()
	_ = p.Process.Kill()
	_ = p.Wait()
	_ = terminal.Close()
	<-done
}
