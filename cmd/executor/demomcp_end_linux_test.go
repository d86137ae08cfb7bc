package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const mcpBegin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// mcpDemo is executor demo --mcp in a directory for temporary files of its own.
func mcpDemo(t *testing.T) (cmd *exec.Cmd, temp string, log *lockedBuffer) {
	s := newSite(t)
	temp = t.TempDir()
	cmd = exec.Command(filepath.Join(s.bin, "executor"), "demo", "--mcp")
	cmd.Dir, cmd.Env = s.work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "SHELL=/bin/sh", "TMPDIR=" + temp}
	log = &lockedBuffer{}
	cmd.Stderr = log
	return cmd, temp, log
}

// A client that has stopped to read, or is gone, while commands print without end.
func TestDemoMCPClientThatDoesNotRead(t *testing.T) {
	for name, end := range map[string]func(in, out io.Closer, p *os.Process){
		"end of input": func(in, _ io.Closer, _ *os.Process) { _ = in.Close() },
		"SIGTERM":      func(_, _ io.Closer, p *os.Process) { _ = p.Signal(syscall.SIGTERM) },
		"SIGINT":       func(_, _ io.Closer, p *os.Process) { _ = p.Signal(syscall.SIGINT) },
		"gone":         func(_, out io.Closer, _ *os.Process) { _ = out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			cmd, temp, log := mcpDemo(t)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = io.WriteString(in, mcpBegin)
			require.NoError(t, err)
			_, err = bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			for i := range 4 {
				_, err = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"bash","arguments":{"command":"yes"},"_meta":{"progressToken":%d}}}`+"\n", i+1, i+1)
				require.NoError(t, err)
			}
			require.Eventually(t, func() bool { // the pipe is full
				n, err := unix.IoctlGetInt(int(out.(*os.File).Fd()), unix.TIOCINQ)
				return err == nil && n > 50<<10
			}, 30*time.Second, 10*time.Millisecond)
			before := time.Now()
			end(in, out, cmd.Process)
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(ended)
			}()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill()
				<-ended
				t.Error("it does not end")
			}
			t.Logf("ended after %v: %s", time.Since(before).Round(10*time.Millisecond), log.String())
			_, _ = in.Close(), out.Close()
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// What was asked before the end of the input is answered, though it takes a while.
func TestDemoMCPEndOfInput(t *testing.T) {
	cmd, _, log := mcpDemo(t)
	cmd.Stdin = bytes.NewBufferString(mcpBegin + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 3; echo do''ne"}}}`)
	out, err := cmd.Output()
	require.NoError(t, err, log.String())
	assert.Contains(t, string(out), `done`)
}
