//go:build unix

package shell

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/agent-executor/executor/capabilities/capabilitytest"
)

// BenchmarkCommand compares what a command costs: through bash, through run_shell, and in a bash that is
// told what to do over its standard input and answers on its output, with nothing round it.
func BenchmarkCommand(b *testing.B) {
	for _, c := range []struct{ name, command string }{{"builtin", ":"}, {"program", "/bin/true"}} {
		for _, tool := range []string{"bash", "run_shell"} {
			b.Run(c.name+"/"+tool, func(b *testing.B) {
				s := capabilitytest.NewHost(b, New(Options{LoginEnv: map[string]string{}})).NewSession(b, capabilitytest.Options{})
				for b.Loop() {
					if _, err := capabilitytest.Call(b, s, tool, map[string]any{"command": c.command}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(c.name+"/bare", func(b *testing.B) {
			bare := exec.Command("bash", "--noprofile", "--norc")
			in, _ := bare.StdinPipe()
			out, _ := bare.StdoutPipe()
			if err := bare.Start(); err != nil {
				b.Fatal(err)
			}
			lines := bufio.NewReader(out)
			for b.Loop() {
				_, _ = io.WriteString(in, c.command+"\necho DONE $?\n")
				if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "DONE") {
					b.Fatal(line, err)
				}
			}
			_ = in.Close()
			_ = bare.Wait()
		})
	}
}
