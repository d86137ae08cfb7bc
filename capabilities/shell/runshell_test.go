//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities/capabilitytest"
	"github.com/agent-executor/executor/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shellAnswer is a result of run_shell as a brain reads it.
type shellAnswer struct {
	shellResult
	outcome string
	text    string
	isError bool
	err     *protocol.Error
}

func (b *bench) shell(ctx context.Context, input any) shellAnswer {
	b.t.Helper()
	got, err := capabilitytest.CallContext(ctx, b.t, b.Session, "run_shell", input)
	if err != nil {
		var e *protocol.Error
		require.True(b.t, errors.As(err, &e), "%v", err)
		return shellAnswer{err: e}
	}
	r := shellAnswer{outcome: got.Outcome, isError: got.IsError}
	blocks := got.Content
	if got.Error != nil {
		r.err = protocol.Errorf(got.Error.Code, "%s", got.Error.Message).WithReason(got.Error.Reason)
		blocks = blocks[:len(blocks)-1]
	}
	for _, c := range blocks {
		r.text += c.Text
	}
	if got.Structured != nil {
		require.NoError(b.t, json.Unmarshal(got.Structured, &r.shellResult))
	}
	return r
}

// sh runs a command in the persistent shell.
func (b *bench) sh(command string) shellAnswer {
	b.t.Helper()
	return b.shell(context.Background(), map[string]any{"command": command})
}

func (b *bench) shFor(command string, ms int) shellAnswer {
	b.t.Helper()
	return b.shell(context.Background(), map[string]any{"command": command, "timeout_ms": ms})
}

// code is the exit code, -1 when there is none.
func (r shellAnswer) code() int {
	if r.ExitCode == nil {
		return -1
	}
	return *r.ExitCode
}

// Cases 46, 47, 48, 149, X7: nothing in a command's text breaks what comes after it.
func TestShellTexts(t *testing.T) {
	for name, test := range map[string]struct {
		command string
		output  string // exactly; "*" stands for anything
		code    int
		lost    bool // the shell has ended
	}{
		"both streams":           {`echo out; echo err >&2; false`, "out\nerr\n", 1, false},
		"nothing":                {`true`, "", 0, false},
		"case 46, heredoc":       {"cat <<EOF\nhello", "*", 0, false},
		"case 46, quote":         {`echo 'unclosed`, "*unexpected EOF*", 2, false},
		"case 46, if":            {`if true; then`, "*syntax error*", 2, false},
		"case 47, heredoc":       {"cat <<EOF\na\nEOF", "a\n", 0, false},
		"case 47, quoted":        {"cat - <<'PY'\nprint(1)\nPY", "print(1)\n", 0, false},
		"case 47, comment":       {`echo hi # note`, "hi\n", 0, false},
		"case 47, backslash":     {`echo hi \`, "hi\n", 0, false},
		"case 47, background":    {`sleep 0.05 &`, "", 0, false},
		"case 48, errexit":       {`set -e; false; echo AFTER`, "", 1, true},
		"case 48, nounset":       {`set -u; echo $NOPE`, "*NOPE: unbound variable*", 1, false},
		"case 149":               {`: '` + strings.Repeat("x", 300_000) + `'; echo ok`, "ok\n", 0, false},
		"case X5":                {`echo a; kill -9 $$`, "a\n", 137, true},
		"exit":                   {`exit 3`, "", 3, true},
		"exec":                   {`exec sh -c 'echo other; exit 4'`, "other\n", 4, true},
		"exec of nothing":        {`exec nosuchprogram`, "*not found*", 127, true},
		"xtrace":                 {`set -x; echo hi`, "++ echo hi\nhi\n", 0, false},
		"verbose":                {"set -v\necho hi", "echo hi\nhi\n", 0, false},
		"noexec":                 {`set -n; echo hi`, "hi\n", 0, false},
		"input":                  {`cat; readlink /proc/self/fd/0; read x || echo none`, "/dev/null\nnone\n", 0, false},
		"trap DEBUG":             {"trap 'echo dbg' DEBUG; echo one", "dbg\none\n", 0, false},
		"trap ERR":               {`trap 'echo err' ERR; false`, "err\n", 1, false},
		"trap EXIT":              {`trap 'echo bye' EXIT`, "", 0, false},
		"aliases":                {"shopt -s expand_aliases\nalias printf=false builtin=false .=false eval=false ls='echo ls'\nls", "ls\n", 0, false},
		"functions":              {`eval(){ :; }; unset(){ :; }; printf(){ :; }; exec(){ :; }; trap(){ :; }; read(){ :; }; cd(){ :; }; .(){ :; }; echo ok`, "ok\n", 0, false},
		"builtin is a function":  {`builtin(){ :; }; echo ok`, "ok\n", -1, true},
		"builtin is disabled":    {`enable -n builtin printf; echo ok`, "ok\n", -1, true},
		"PATH":                   {`PATH=; echo ok`, "ok\n", 0, false},
		"IFS":                    {`IFS=x0; echo ok`, "ok\n", 0, false},
		"output closed":          {`exec 2>&- >&- <&-`, "", 0, false},
		"output elsewhere":       {`exec >/dev/null 2>&1; echo gone`, "", 0, false},
		"return":                 {`return 4; echo no`, "", 4, false},
		"break":                  {`break; continue; echo on`, "*on\n", 0, false},
		"posix":                  {`set -o posix; echo ok`, "ok\n", 0, false},
		"options":                {`set -Cfkb; shopt -s extdebug nullglob failglob lastpipe; echo ok`, "ok\n", 0, false},
		"restricted":             {`set -r; echo ok`, "ok\n", 0, true},
		"commands skipped":       {`shopt -s extdebug; trap false DEBUG`, "", -1, true},
		"descriptors closed":     {`for i in {3..255}; do eval "exec $i>&-"; done; echo ok`, "*ok\n", 0, true},
		"descriptors written to": {`for f in /proc/$$/fd/*; do echo garbage > $f; done 2>/dev/null; echo ok`, "*ok\n", 0, false},
		"what looks like it":     {`printf '%s 0  hB /tmp\0' 0123456789abcdef; printf '\0\0'; echo ok`, "0123456789abcdef 0  hB /tmpok\n", 0, false},
		"readonly":               {`readonly PWD HOME; RR=1; readonly RR; RR=2; echo no`, "*readonly*", 1, false},
		"error in an expansion":  {`echo ${NOPE:?bad}; echo no`, "*bad*", 1, false},
		"TERM to itself":         {`kill $$; echo ok`, "ok\n", 0, false},
		"INT to itself":          {`kill -INT $$; echo no`, "", 130, false},
		"URG to itself":          {`kill -URG $$; echo no`, "", 130, false},
		"history":                {`set -o history; set -H; echo "hello!world"; history | wc -l >/dev/null`, "hello!world\n", 0, false},
		"no terminal":            {`tty; : </dev/tty || echo none`, "*none\n", 0, false},
		"descriptors":            {`ls -l /proc/self/fd | grep -c -- '->'`, "4\n", 0, false}, // its own of the directory is the fourth
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Options{})
			started := time.Now()
			r := b.sh(test.command)
			assert.Less(t, time.Since(started), 8*time.Second, "promptly")
			require.Nil(t, r.err)
			assert.Equal(t, protocol.OutcomeSucceeded, r.outcome)
			if want, loose := strings.CutPrefix(test.output, "*"); loose {
				assert.Contains(t, r.Output, strings.TrimSuffix(want, "*"))
			} else {
				assert.Equal(t, test.output, r.Output)
			}
			assert.Equal(t, test.code, r.code(), r.text)
			assert.Equal(t, test.code != 0, r.isError)
			assert.Equal(t, test.lost, r.StateLost, r.text)
			assert.False(t, r.TimedOut || r.Truncated)
			assert.Equal(t, b.dir, r.Cwd)
			pid := b.pid()

			started = time.Now()
			r = b.sh(`echo NEXT; (exit 5)`)
			assert.Less(t, time.Since(started), 8*time.Second, "promptly")
			if name == "xtrace" || name == "verbose" || name == "trap ERR" {
				assert.Contains(t, r.Output, "NEXT\n")
			} else {
				assert.Equal(t, "NEXT\n", r.Output)
			}
			assert.Equal(t, 5, r.code())
			assert.Equal(t, test.lost, r.StateLost, "said once more")
			assert.Equal(t, "NEXT\n", strings.ReplaceAll(b.sh(`{ set +xv; } 2>/dev/null; echo NEXT`).Output, "{ set +xv; } 2>/dev/null; echo NEXT\n", ""))
			if !test.lost {
				assert.Equal(t, pid, b.pid(), "the same shell")
			}
		})
	}
}

// pid is that of the shell, 0 without one.
func (b *bench) pid() int {
	st, err := stateOf(b.Session.Session)
	require.NoError(b.t, err)
	if st.shell.shell == nil {
		return 0
	}
	return st.shell.shell.p.PID()
}

// Case 45: what lasts and what does not.
func TestShellState(t *testing.T) {
	b := newBench(t, Options{})
	require.NoError(t, os.MkdirAll(filepath.Join(b.dir, "sub/bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "activate"), []byte("export ENV_ON=yes\nPATH=$PWD/sub/bin:$PATH\nPS1='(env) '\ndeactivate(){ unset ENV_ON; }\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "sub/bin/tool"), []byte("#!/bin/sh\necho tool\n"), 0o700))
	sub := filepath.Join(b.dir, "sub")
	for _, c := range []struct{ command, output, cwd string }{
		{`cd sub && pwd`, sub + "\n", sub},
		{`pwd`, sub + "\n", sub},
		{`(cd ..)`, "", sub},
		{`cd bin; false`, "", sub + "/bin"},
		{`cd nope 2>/dev/null; cd ..`, "", sub},
		{`pushd /tmp >/dev/null; dirs`, "/tmp " + sub + "\n", "/tmp"},
		{`popd >/dev/null; pwd`, sub + "\n", sub},
		{`cd ..`, "", b.dir},
		{`export A=1; B=2; f(){ echo f$1; }; alias g='echo g'`, "", b.dir},
		{`f 1; g 2; echo $A$B; env | grep ^A=`, "f1\ng 2\n12\nA=1\n", b.dir},
		{`source ./activate`, "", b.dir},
		{`tool; echo $ENV_ON`, "tool\nyes\n", b.dir},
		{`deactivate; echo $ENV_ON`, "\n", b.dir},
		{`set -o pipefail; shopt -s nullglob`, "", b.dir},
		{`false | true; echo $?; echo no*such`, "1\n\n", b.dir},
		{`exec 7>kept; echo x >&7`, "", b.dir},
		{`echo y >&7; cat kept; exec 7>&-`, "x\ny\n", b.dir},
		{`set -- a b; shift`, "", b.dir},
		{`echo $1 $SESSION_VARIABLE`, "b of the session\n", b.dir},
		{`mkdir 'a b'\''c'; cd 'a b'\''c'`, "", b.dir + "/a b'c"},
		{`(exit 3)`, "", b.dir + "/a b'c"},
		{`echo $?`, "3\n", b.dir + "/a b'c"},
		{`echo $?`, "0\n", b.dir + "/a b'c"},
		{`PWD=/nonsense`, "", b.dir + "/a b'c"},
		{`cd ..; ln -s sub link; cd link; pwd`, b.dir + "/link\n", b.dir + "/link"},
	} {
		r := b.sh(c.command)
		require.Nil(t, r.err, c.command)
		assert.Equal(t, c.output, r.Output, c.command)
		assert.Equal(t, c.cwd, r.Cwd, c.command)
		assert.False(t, r.StateLost, c.command)
	}
}

// Case 42: a directory that was removed is not the end.
func TestShellDirectoryGone(t *testing.T) {
	b := newBench(t, Options{})
	b.sh(`mkdir -p d/x && cd d/x`)
	r := b.sh(`rm -rf ../x; echo removed`)
	assert.Equal(t, "removed\n", r.Output)
	assert.Equal(t, b.dir+"/d/x", r.Cwd)
	r = b.sh(`echo hello; pwd`)
	assert.Equal(t, "hello\n"+b.dir+"/d\n", r.Output)
	assert.Contains(t, r.text, "[the directory "+b.dir+"/d/x was removed or replaced; the command ran in "+b.dir+"/d]")
	assert.Equal(t, b.dir+"/d", r.Cwd)
	assert.Equal(t, "/tmp\n", b.sh(`cd /tmp && pwd`).Output)
	r = b.sh(`cd ` + b.dir + `/d && rm -rf ../d && mkdir ../d && echo x > ../d/f`)
	assert.Equal(t, b.dir+"/d", r.Cwd)
	r = b.sh(`cat f`) // another directory under the same name
	assert.Equal(t, "x\n", r.Output)
	assert.Contains(t, r.text, "was removed or replaced")

	// A new shell begins in what is left of the last directory.
	b.sh(`mkdir -p e/f; cd e/f`)
	b.sh(`rm -rf ../../e; exit`)
	r = b.sh(`pwd`)
	assert.Equal(t, b.dir+"/d\n", r.Output)
	assert.True(t, r.StateLost)
}

// Cases 7, 8, 18, 23, X6 and more: what is interrupted has ended, does not go on, and the shell stays.
func TestShellTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		command string
		output  string
		lost    bool
	}{
		"goes not on":         {`echo a; sleep 8401; echo X`, "a\n", false},
		"next line":           {"sleep 8401\necho X\n", "", false},
		"function":            {`f(){ sleep 8401; echo X; }; f; echo X`, "", false},
		"subshell":            {`(sleep 8401; echo X); echo X`, "", false},
		"pipeline":            {`sleep 8401 | cat; echo X`, "", false},
		"substitution":        {`x=$(sleep 8401); echo X`, "", false},
		"grandchild":          {`sh -c 'sleep 8401; echo X'; echo X`, "", false},
		"builtin loop":        {`while :; do :; done; echo X`, "", false},
		"case 23":             {`while :; do echo .; sleep 0.1; done`, ".\n", false},
		"case 7":              {`sleep 8401 & wait; echo X`, "", false},
		"case 8, session":     {`setsid sleep 8401 & wait; echo X`, "", false},
		"case 8, two forks":   {`perl -e 'use POSIX; fork and exit; setsid(); fork and exit; exec q(sleep),8401'; sleep 8401; echo X`, "", false},
		"in the background":   {`sleep 8401 >/dev/null 2>&1 & sleep 8401; echo X`, "", false},
		"takes it for itself": {`perl -e '$SIG{INT} = sub { print "caught\n"; exit 0 }; $| = 1; sleep 60'; echo X`, "caught\n", false},
		"ignores it":          {`perl -e '$SIG{INT} = "IGNORE"; sleep 60'; echo X`, "", false},
		"ignores all":         {`perl -e '$SIG{INT} = $SIG{TERM} = "IGNORE"; sleep 60'; echo X`, "", false},
		"case 18":             {`bash -c 'echo BEFORE; trap "echo CLEANUP; exit 9" INT; sleep 8401 & wait'; echo X`, "BEFORE\nCLEANUP\n", false},
		"case X6":             {`sh -c 'trap "exit 0" INT TERM; sleep 8401 & wait'; echo X`, "", false},
		"the shell is deaf":   {`trap '' INT; while :; do :; done`, "", true},
		"the shell stops":     {`kill -STOP $$; echo X`, "", false},
		"waits for a pipe":    {`mkfifo p; echo y > p; echo X`, "", false},
		"reads a pipe":        {`mkfifo p; read x < p; echo X`, "", false},
		"became another":      {`exec sleep 8401`, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Options{Grace: 400 * time.Millisecond})
			number := unique(84_000 + int(counter.Add(1)))
			b.sh(`export KEPT=yes`)
			started := time.Now()
			limit := 500
			if strings.HasSuffix(test.command, "do :; done") || strings.Contains(test.command, "do :; done;") { // which keeps a processor busy
				limit = 250
			}
			r := b.shFor(strings.ReplaceAll(test.command, "8401", number), limit)
			assert.Less(t, time.Since(started), 8*time.Second)
			require.NotNil(t, r.err)
			assert.ErrorIs(t, r.err, protocol.ErrTimeout)
			assert.Equal(t, protocol.OutcomeFailed, r.outcome)
			assert.True(t, r.TimedOut)
			assert.Nil(t, r.ExitCode)
			assert.Empty(t, r.Survivors)
			assert.NotContains(t, r.Output, "X")
			assert.Contains(t, r.Output, test.output)
			assert.Equal(t, test.lost, r.StateLost, r.text)
			assert.Regexp(t, `\[timed out after \d+ ms; the command was ended\]\n$`, r.text)
			assert.False(t, running(t, "sleep "+number))
			kept := "yes\n"
			if test.lost {
				kept = "\n"
			}
			assert.Equal(t, kept, b.sh(`echo $KEPT`).Output)
		})
	}
}

// What an earlier call has left in the background on purpose stays, and so does what that starts.
func TestShellTimeoutSparesTheBackground(t *testing.T) {
	b := newBench(t, Options{Grace: 200 * time.Millisecond})
	sleep := func(n int) string { return "sleep " + unique(n) }
	r := b.sh(sleep(8501) + ` >/dev/null 2>&1 & { while :; do sleep 0.05; done; } & echo started`)
	assert.Equal(t, "started\n", r.Output)
	require.GreaterOrEqual(t, len(r.Background), 2)
	assert.Contains(t, r.text, "[still running in the background: pid ")
	r = b.shFor(sleep(8502)+" & "+sleep(8503), 400)
	assert.True(t, r.TimedOut)
	assert.True(t, running(t, sleep(8501)))
	assert.False(t, running(t, sleep(8502)) || running(t, sleep(8503)))
	assert.Equal(t, "2\n", b.sh(`jobs -rp | wc -l`).Output)
	assert.Empty(t, b.sh(sleep(8504)+` >/dev/null 2>&1 & exit`).Survivors)
	r = b.shFor(sleep(8505), 300)
	assert.True(t, r.TimedOut && r.StateLost)
	assert.True(t, running(t, sleep(8501)) && running(t, sleep(8504)), "left by the shell before")
	b.End()
	for n := 8501; n <= 8505; n++ {
		assert.False(t, running(t, sleep(n)))
	}
}

// Cases 1 and 2: the call ends with its command, and what goes on is heard in no other call.
func TestShellBackground(t *testing.T) {
	for i, command := range []string{
		`{ while :; do echo tick; sleep 0.02; done; } & echo done`,
		`sleep 8601 >/dev/null & echo done`,
		`setsid sleep 8601 & echo done`,
		`( sleep 8601 & ); echo done`,
		`coproc sleep 8601; echo done`,
		`sleep 8601 >/dev/null 2>&1 & echo done`,
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			command := strings.ReplaceAll(command, "8601", unique(8601+i))
			b := newBench(t, Options{})
			started := time.Now()
			r := b.sh(command)
			assert.Less(t, time.Since(started), prompt)
			require.Nil(t, r.err)
			assert.Equal(t, 0, r.code())
			assert.Contains(t, r.Output, "done\n")
			assert.NotEmpty(t, r.Background)
			r = b.sh(`sleep 0.2; echo NEXT`)
			assert.Equal(t, "NEXT\n", r.Output)
			assert.Empty(t, r.Background)
			b.End()
			assert.False(t, running(t, `sleep `+unique(8601+i)))
		})
	}
}

// Case 9: a canceled command has let go of its port when the call ends.
func TestShellCancel(t *testing.T) {
	b := newBench(t, Options{Grace: 200 * time.Millisecond})
	for range 2 {
		ctx, cancel := context.WithCancel(context.Background())
		seen := len(capabilitytest.Notified(t, b.Host.Peer, protocol.ToolProgress))
		var wg sync.WaitGroup
		wg.Go(func() {
			defer cancel()
			assert.Eventually(t, func() bool {
				return len(capabilitytest.Notified(t, b.Host.Peer, protocol.ToolProgress)) > seen
			}, 10*time.Second, 5*time.Millisecond)
		})
		r := b.shell(ctx, map[string]any{"command": `trap '' TERM; perl -MIO::Socket::INET -e '$|=1; my $s = IO::Socket::INET->new(LocalAddr=>"127.0.0.1:38767",Listen=>1) or die "taken\n"; print "bound\n"; sleep 60' & wait; echo X`})
		wg.Wait()
		require.Equal(t, protocol.OutcomeCanceled, r.outcome, r.text)
		assert.ErrorIs(t, r.err, protocol.ErrCanceled)
		assert.Equal(t, "bound\n", r.Output)
		assert.Empty(t, r.Survivors)
		assert.False(t, r.StateLost)
		assert.Contains(t, r.text, "[canceled after")
	}
}

// Case 13: a cancel at the moment of the end: one answer or the other, and the next command is not hurt.
func TestShellCancelRacesTheEnd(t *testing.T) {
	b := newBench(t, Options{})
	b.sh(`true`)
	for i := range 30 {
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
		r := b.shell(ctx, map[string]any{"command": `(exit 7)`})
		if r.err != nil {
			assert.ErrorIs(t, r.err, protocol.ErrCanceled)
			assert.Nil(t, r.ExitCode)
		} else {
			assert.Equal(t, 7, r.code())
		}
		timer.Stop()
		cancel()
		r = b.sh(`echo NEXT`)
		require.Nil(t, r.err)
		assert.Equal(t, "NEXT\n", r.Output)
		assert.Equal(t, 0, r.code())
		assert.False(t, r.StateLost, i)
	}
}

// A deadline, at each point of a call.
func TestShellDeadline(t *testing.T) {
	b := newBench(t, Options{Grace: 200 * time.Millisecond})
	until := func(limit time.Duration, input any) shellAnswer {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		return b.shell(ctx, input)
	}
	r := until(0, map[string]any{"command": `touch never`}) // before the start
	assert.ErrorIs(t, r.err, protocol.ErrTimeout)
	r = until(3*time.Second, map[string]any{"command": `echo so far; sleep 60`}) // the shell starts first
	assert.ErrorIs(t, r.err, protocol.ErrTimeout)
	assert.ErrorContains(t, r.err, "deadline")
	assert.Equal(t, "so far\n", r.Output)
	assert.True(t, r.TimedOut)
	for limit := range 20 { // while the shell starts, and while the output is waited for that somebody still holds
		r = until(time.Duration(limit)*10*time.Millisecond, map[string]any{"command": `sleep 0.05 & echo x`})
		if r.err == nil {
			assert.Equal(t, 0, r.code())
			assert.Equal(t, "x\n", r.Output)
		} else {
			assert.ErrorIs(t, r.err, protocol.ErrTimeout)
		}
		if limit%2 == 0 {
			b.sh(`exit`)
		}
	}
	assert.NoFileExists(t, filepath.Join(b.dir, "never"))
	assert.Equal(t, "NEXT\n", b.sh(`echo NEXT`).Output)

	for _, input := range []map[string]any{{"command": `touch never`, "run_in_background": true}, {"command": `touch never`}} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r = b.shell(ctx, input)
		assert.ErrorIs(t, r.err, protocol.ErrCanceled)
	}
	task := b.background(`sleep 60`)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	a := b.taskCall(ctx, "shell_task_output", map[string]any{"task_id": task.TaskID, "wait_ms": 60_000})
	assert.ErrorIs(t, a.err, protocol.ErrTimeout)
	assert.NoFileExists(t, filepath.Join(b.dir, "never"))
}

// The session's end ends calls at each point: the one that runs, and the one that waits.
func TestShellSessionEnds(t *testing.T) {
	b := newBench(t, Options{Grace: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background()) // the executor cancels the calls of a session that ends
	var wg sync.WaitGroup
	for _, command := range []string{`echo begun; sleep 60`, `touch never`} {
		wg.Go(func() { assert.ErrorIs(t, b.shell(ctx, map[string]any{"command": command}).err, protocol.ErrCanceled) })
		capabilitytest.WaitNotified(t, b.Host.Peer, protocol.ToolProgress, nil)
	}
	cancel()
	wg.Wait()
	b.End()
	assert.NoFileExists(t, filepath.Join(b.dir, "never"))
}

// Case 44: calls of one session run one after another, and the wait counts.
func TestShellQueue(t *testing.T) {
	b := newBench(t, Options{})
	var wg sync.WaitGroup
	first := make(chan shellAnswer, 1)
	wg.Go(func() { first <- b.sh(`mkdir a; cd a; echo begun; sleep 0.8; pwd`) })
	capabilitytest.WaitNotified(t, b.Host.Peer, protocol.ToolProgress, func(p protocol.ToolProgressParams) bool { return string(p.Data) == "begun\n" })

	r := b.shFor(`touch never`, 100)
	assert.ErrorIs(t, r.err, protocol.ErrTimeout)
	assert.ErrorContains(t, r.err, "was not started")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	r = b.shell(ctx, map[string]any{"command": `touch never`})
	cancel()
	assert.ErrorIs(t, r.err, protocol.ErrTimeout)
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	r = b.shell(ctx, map[string]any{"command": `touch never`})
	assert.ErrorIs(t, r.err, protocol.ErrCanceled)

	assert.Equal(t, b.dir+"/a\n", b.sh(`mkdir b; pwd`).Output)
	wg.Wait()
	assert.Equal(t, "begun\n"+b.dir+"/a\n", (<-first).Output)
	assert.NoFileExists(t, filepath.Join(b.dir, "a/never"))
	assert.DirExists(t, filepath.Join(b.dir, "a/b"))
}

// A shell that has ended between two calls is replaced, and the next result says so.
func TestShellDiesBetweenCalls(t *testing.T) {
	b := newBench(t, Options{})
	b.sh(`X=1; mkdir d; cd d`)
	pid := b.pid()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	// A command that it reads while it dies is not given to another one: it might have been run.
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, 5*time.Second, time.Millisecond)
	time.Sleep(20 * time.Millisecond) // reaped, and soon known to be
	r := b.sh(`echo "$X$PWD"`)
	assert.Equal(t, b.dir+"/d\n", r.Output)
	assert.True(t, r.StateLost)
	assert.Equal(t, 0, r.code())
	assert.Contains(t, r.text, "a new one took its place")
	assert.False(t, b.sh(`true`).StateLost)

	b.sh(`set -t`) // ends when it gets the next command, or before
	r = b.sh(`echo ran`)
	assert.Equal(t, "ran\n", r.Output)
	assert.Equal(t, 0, r.code())
	b.sh(`(sleep 0.05; kill -9 $$) >/dev/null 2>&1 &`)
	for range 20 { // it dies at any moment; nothing is run twice, nor not at all without a word
		r = b.sh(`echo ran; echo ran >> runs`)
		if r.code() == 0 {
			assert.Equal(t, "ran\n", r.Output)
		} else {
			assert.True(t, r.StateLost)
			assert.Equal(t, 137, r.code())
		}
	}
}

// Case 20: as with bash.
func TestShellLongOutput(t *testing.T) {
	b := newBench(t, Options{})
	r := b.sh(`seq 1 200000; echo 'FAILED t_x - 3 failed, 10 passed'; false`)
	require.Nil(t, r.err)
	assert.Equal(t, 1, r.code())
	assert.True(t, r.Truncated)
	assert.LessOrEqual(t, len(r.text), protocol.DefaultInlineResult)
	assert.True(t, strings.HasPrefix(r.text, "1\n2\n3\n"))
	assert.True(t, strings.HasSuffix(r.text, "\nFAILED t_x - 3 failed, 10 passed\n[exit code 1]\n"))
	whole, err := os.ReadFile(filepath.Join(b.dir, r.OutputFile))
	require.NoError(t, err)
	assert.Equal(t, 1_288_895+len("FAILED t_x - 3 failed, 10 passed\n"), len(whole))
	r = b.shFor(`yes`, 300)
	assert.True(t, r.TimedOut)
	assert.False(t, r.StateLost)
}

// Case 36: the environment is the same as that of bash; a shell leaves nothing of its own behind.
func TestShellEnvironment(t *testing.T) {
	b := newBench(t, Options{})
	names := `env | sed 's/^EXECUTOR_SPAWN_ID=.*//; s/=.*//' | grep -v '^_$' | sort`
	assert.Equal(t, b.run(names).Stdout, b.sh(names).Output)
	assert.NotContains(t, b.sh(`env`).Output, "the-executors-own")
}

// The session's end ends the shell, also a busy and a deaf one, and removes its files.
func TestShellEnds(t *testing.T) {
	for _, command := range []string{`true`, `trap '' TERM HUP INT`, `trap 'sleep 60' EXIT`, `set -o ignoreeof`, `sleep 8701 &`} {
		b := newBench(t, Options{Grace: 200 * time.Millisecond})
		b.sh(strings.ReplaceAll(command, "8701", unique(8701)))
		st, err := stateOf(b.Session.Session)
		require.NoError(t, err)
		assert.DirExists(t, st.shell.pipes.dir)
		entries, err := os.ReadDir(st.shell.pipes.dir)
		require.NoError(t, err)
		assert.Empty(t, entries)
		pid := b.pid()
		started := time.Now()
		b.End()
		assert.Less(t, time.Since(started), prompt)
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
		assert.NoDirExists(t, st.shell.pipes.dir)
		assert.False(t, running(t, "sleep "+unique(8701)))
		assert.ErrorIs(t, b.sh(`true`).err, protocol.ErrSessionNotActive)
	}
}

// Case 137: nothing is left open.
func TestShellLeaksNothing(t *testing.T) {
	b := newBench(t, Options{})
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(names)
	}
	b.sh(`true`)
	before := count()
	for range 15 {
		b.sh(`true`)
		b.sh(`sleep 0.01 & :`)
		b.sh(`exit`)
	}
	b.sh(`wait; sleep 0.1`)
	b.sh(`true`)
	assert.InDelta(t, before, count(), 3)
}
