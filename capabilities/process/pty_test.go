//go:build unix

package process

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onPTY is a shell script on a PTY, or a skipped test where there is none.
func onPTY(t *testing.T, id, script string) protocol.ProcessStartParams {
	t.Helper()
	if !terminalsWork() {
		t.Skip("this machine gives out no PTY")
	}
	p := sh(id, script)
	p.IOMode = protocol.IOModePTY
	return p
}

func (b *bench) resize(id string, cols, rows int) error {
	_, err := capabilitytest.Do(b.ctx, b.Session, protocol.ProcessResize, protocol.ProcessResizeParams{SessionID: b.ID(), ProcessID: id, Cols: cols, Rows: rows})
	return err
}

// The end of a PTY is no error, and the last line is there (case 140).
func TestPTY(t *testing.T) {
	b := newBench(t, Options{})
	s := b.run(onPTY(t, "p", `[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && tty >/dev/null && echo $TERM; printf err >&2; printf 'last line'; exit 5`))
	assert.Equal(t, 5, *s.ExitCode)
	assert.Equal(t, protocol.StderrMerge, s.Stderr)
	assert.Equal(t, "xterm-256color\r\nerrlast line", b.all("p", ""))
	assert.Empty(t, b.all("p", protocol.StreamStderr))
}

// What is printed is there with the exit, however many there are and whatever holds the far side.
func TestPTYLastWords(t *testing.T) {
	b := newBench(t, Options{KeepFinished: 200})
	var all sync.WaitGroup
	for lane := range 4 {
		all.Go(func() {
			for i := range full(15, 3) {
				p := onPTY(t, fmt.Sprintf("%d-%d", lane, i), `seq 1 2000; echo last words`)
				if i%5 == 0 {
					p.Argv[2] += `; trap '' HUP; sleep 700 &`
				}
				p.WaitMS = 60_000
				if s, err := b.try(p); !assert.NoError(t, err) || !assert.NotNil(t, s.ExitCode) || !assert.Equal(t, 0, *s.ExitCode) {
					return
				}
				r, err := b.read(protocol.ProcessReadParams{ProcessID: p.ProcessID})
				assert.NoError(t, err)
				assert.Contains(t, string(r.Data), "2000\r\nlast words\r\n")
			}
		})
	}
	all.Wait()
}

// The size is there before the program (case 142).
func TestPTYSize(t *testing.T) {
	b := newBench(t, Options{})
	for i := range full(50, 12) {
		p := onPTY(t, fmt.Sprint(i), `stty size`)
		p.Cols, p.Rows = 132, 50
		b.run(p)
		require.Equal(t, "50 132\r\n", b.all(p.ProcessID, ""))
	}
	b.run(onPTY(t, "default", `stty size`))
	assert.Equal(t, "24 80\r\n", b.all("default", ""))
}

func TestResize(t *testing.T) {
	b := newBench(t, Options{})
	b.start(onPTY(t, "p", `trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done`))
	b.until("p", "", "ready")
	require.NoError(t, b.resize("p", 100, 40))
	assert.Contains(t, b.all("p", ""), "40 100")
	b.ended("p")
	requireError(t, b.resize("p", 100, 40), protocol.CodeConflict, "")
	for _, size := range [][2]int{{0, 40}, {65536, 40}, {80, 0}, {80, 65536}} {
		requireError(t, b.resize("p", size[0], size[1]), protocol.CodeInvalidParams, "")
	}
	b.run(sh("pipes", "true"))
	requireError(t, b.resize("pipes", 1, 1), protocol.CodeConflict, "")

	b.start(onPTY(t, "q", `sleep 0.1`)) // while it ends (case 141)
	for i := range 100 {
		if err := b.resize("q", 80+i, 24); err != nil {
			requireError(t, err, protocol.CodeConflict, "")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestPTYInput(t *testing.T) {
	b := newBench(t, Options{})
	p := onPTY(t, "p", `read -r x; echo "got $x"; cat; echo end; exit 3`)
	p.Stdin = protocol.StdinOpen
	b.start(p)
	write := func(id, text string, end bool) {
		_, err := b.write(protocol.ProcessWriteParams{ProcessID: id, Data: []byte(text), CloseStdin: end})
		require.NoError(t, err)
	}
	write("p", "hello\n", false)
	b.until("p", "", "got hello")
	write("p", "rest", true)
	assert.True(t, strings.HasSuffix(b.all("p", ""), "restend\r\n"))
	assert.Equal(t, 3, *b.ended("p").ExitCode)

	p = onPTY(t, "q", `cat; echo over`)
	p.Stdin = protocol.StdinOpen
	b.start(p)
	write("q", "", true)
	assert.True(t, strings.HasSuffix(b.all("q", ""), "over\r\n"))

	p = onPTY(t, "c", `trap 'echo interrupted; exit 1' INT; echo ready; while :; do sleep 0.02; done`)
	p.Stdin = protocol.StdinOpen
	b.start(p)
	b.until("c", "", "ready")
	write("c", "\x03", false)
	assert.Contains(t, b.all("c", ""), "interrupted")

	b.start(onPTY(t, "closed", `sleep 60`))
	_, err := b.write(protocol.ProcessWriteParams{ProcessID: "closed", Data: []byte("x")})
	requireError(t, err, protocol.CodeConflict, "")
}

// A pager or an editor does not take the terminal (case 33).
func TestPTYNobodyAsks(t *testing.T) {
	b := newBench(t, Options{})
	p := onPTY(t, "p", `echo $PAGER $GIT_PAGER $GIT_EDITOR $EDITOR`)
	b.run(p)
	assert.Equal(t, "cat cat true true\r\n", b.all("p", ""))
}

// A full terminal does not hold up the executor, and a session with one ends.
func TestPTYThatIsNotRead(t *testing.T) {
	b := newBench(t, Options{InputWait: 50 * time.Millisecond})
	p := onPTY(t, "p", `stty raw -echo; echo ready; sleep 700`)
	p.Stdin = protocol.StdinOpen
	b.start(p)
	b.until("p", "", "ready")
	for {
		_, err := b.write(protocol.ProcessWriteParams{ProcessID: "p", Data: make([]byte, 64<<10)})
		if err != nil {
			requireError(t, err, protocol.CodeExecutorBusy, "")
			break
		}
	}
	p = onPTY(t, "q", `yes`)
	p.OnFull = protocol.OnFullBlock
	b.start(p)
	p = onPTY(t, "r", `trap '' HUP TERM; (sleep 700; echo) & echo ready; sleep 700`)
	b.start(p)
	b.until("r", "", "ready")
	b.End()
	for _, id := range []string{"p", "q", "r"} {
		assert.Equal(t, "session_ended", b.ended(id).Reason)
	}
}
