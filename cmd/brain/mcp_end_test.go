//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const mcpBegin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"typed","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// A client that has stopped to read does not keep brain mcp, nor anything at the brain.
func TestMCPClientThatDoesNotRead(t *testing.T) {
	r := startServer(t)
	withTools(r)
	for name, end := range map[string]func(in io.Closer, out io.Closer, p *os.Process){
		"end of input": func(in, _ io.Closer, _ *os.Process) { _ = in.Close() },
		"told to stop": func(_, _ io.Closer, p *os.Process) { _ = p.Signal(os.Interrupt) },
		"gone":         func(in, out io.Closer, _ *os.Process) { _ = in.Close(); _ = out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(program(t), "mcp", "--state-dir", r.dir)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			require.NoError(t, cmd.Start())
			_, err = io.WriteString(in, mcpBegin)
			require.NoError(t, err)
			_, err = bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			for i := range 40 { // more than pipes and sockets hold
				_, err = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i+1)
				require.NoError(t, err)
			}
			_, err = fmt.Fprintln(in, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 300"}}}`)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return len(r.sessions()) > 0 }, 20*time.Second, 10*time.Millisecond)
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
			t.Logf("ended after %v: %s", time.Since(before).Round(10*time.Millisecond), errs.String())
			_, _ = in.Close(), out.Close()
		})
	}
	t.Cleanup(func() { r.noSessions() })
}

// What was asked before the end of the input is answered, though it takes a while.
func TestMCPEndOfInput(t *testing.T) {
	r := startServer(t)
	withTools(r)
	cmd := exec.Command(program(t), "mcp", "--state-dir", r.dir)
	cmd.Stdin = bytes.NewBufferString(mcpBegin + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 3; echo do''ne"}}}`)
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), `done`)
	r.noSessions()
}
