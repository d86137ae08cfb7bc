package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// By configuration the commands of a session, and its processes, are started as another user, within
// limits and through another program; and what they leave is ended after a kill all the same.
func TestLaunchByConfiguration(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to run commands as somebody else")
	}
	r := newRig(t)
	for _, dir := range []string{r.home, r.work} {
		require.NoError(t, os.Chown(dir, 65534, 65534)) // the way through them is not for all
	}
	box := filepath.Join(r.home, "box")
	require.NoError(t, os.WriteFile(box, []byte("#!/bin/sh\nBOXED=$1\nexport BOXED\nshift\nexec \"$@\"\n"), 0o755))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := func() {
		came := r.next(eventRegistered)
		r.startExecutor("--run-as", "65534:65534", "--nice", "4", "--oom-score-adjust", "200", "--launch-prefix", box, "--launch-prefix", "in the box")
		awaitEvent(t, came, eventRegistered)
	}
	start()
	s, err := r.current(ctx)
	require.NoError(t, err)
	const command = `echo $(id -u; id -g; nice; cat /proc/self/oom_score_adj) "$BOXED"`
	own, err := exec.Command("sh", "-c", "cat /proc/$PPID/oom_score_adj").Output()
	require.NoError(t, err)
	var score int
	_, err = fmt.Sscan(string(own), &score)
	require.NoError(t, err)
	want := fmt.Sprintf("65534 65534 4 %d in the box\n", min(score+200, 1000))

	result, err := s.Call(ctx, "bash", object{"command": command})
	require.NoError(t, err)
	assert.Equal(t, want, result.Content[0].Text)
	p, err := s.Process(ctx, protocol.ProcessStartParams{Argv: []string{"sh", "-c", command}})
	require.NoError(t, err)
	text := make([]byte, 1000)
	n, _ := p.Read(text)
	assert.Equal(t, want, string(text[:n]))

	number := fmt.Sprintf("5100.%d", os.Getpid())
	result, err = s.Call(ctx, "bash", object{"command": `setsid env -i sleep ` + number + ` & sleep 0.2`})
	require.NoError(t, err)
	require.Len(t, sleepers(number), 1, result.Content)
	r.stopExecutor(syscall.SIGKILL)
	start()
	assert.Eventually(t, func() bool { return len(sleepers(number)) == 0 }, 10*time.Second, 10*time.Millisecond)
	r.stopExecutor(syscall.SIGTERM)
	assert.Len(t, r.logLines("child processes are kept hold of")[1]["launch"], 4)
}
