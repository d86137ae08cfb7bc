package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
)

// leavers are commands whose processes do not end with them. NUMBER is how they are known.
var leavers = map[string]string{
	"plain":        `sleep NUMBER & wait`,
	"own session":  `setsid sleep NUMBER & wait`,
	"double fork":  `env -i /usr/bin/perl -e 'use POSIX; fork and exit; setsid(); fork and exit; open(STDIN,"</dev/null"); open(STDOUT,">/dev/null"); open(STDERR,">/dev/null"); exec q(sleep),NUMBER'; sleep 600`,
	"job control":  `set -m; sleep NUMBER & wait`,
	"ignores TERM": `trap '' TERM; sleep NUMBER & while :; do wait; done`,
}

// 20 trees run when the executor is killed. After the next start nothing is left of them, and the log has
// a line for each process. As it is, which has a control group if the tests run as root or in a delegated
// unit, and as a user who can make none. (cases 7, 8, 146)
func TestNothingIsLeftAfterKill(t *testing.T) {
	t.Run("as it is", func(t *testing.T) { leftAfterKill(t, newRig(t)) })
	t.Run("as nobody", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("it takes root to become somebody else")
		}
		setpriv, err := exec.LookPath("setpriv")
		if err != nil {
			t.Skip("no setpriv here")
		}
		r := newRig(t)
		bin := filepath.Join(r.home, "bin")
		require.NoError(t, os.Mkdir(bin, 0o755))
		require.NoError(t, os.Link(filepath.Join(r.bin, "executor"), filepath.Join(bin, "program")))
		script := fmt.Sprintf("#!/bin/sh\nexec %s --reuid=65534 --regid=65534 --clear-groups %s/program \"$@\"\n", setpriv, bin)
		require.NoError(t, os.WriteFile(filepath.Join(bin, "executor"), []byte(script), 0o755))
		r.bin = bin
		for _, dir := range []string{r.home, r.work} {
			require.NoError(t, os.Chown(dir, 65534, 65534))
		}
		leftAfterKill(t, r)
		assert.Empty(t, r.logLines("child processes are kept hold of")[0]["cgroup"])
	})
}

func leftAfterKill(t *testing.T, r *rig) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	came := r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	s, err := r.current(ctx)
	require.NoError(t, err)
	numbers := map[string]string{}
	for kind, command := range leavers {
		for i := range 4 {
			name := fmt.Sprint(kind, " ", i)
			numbers[name] = fmt.Sprintf("%d.%d", 5000+len(numbers), os.Getpid()*1000+len(t.Name()))
			r.open(name, task{})
			_, err := s.Start(ctx, protocol.ToolCallParams{ToolCallID: name, Tool: "bash",
				Input: inputOf(object{"command": strings.ReplaceAll(command, "NUMBER", numbers[name])})})
			require.NoError(t, err)
		}
	}
	defer func() { // of a test that fails
		for _, number := range numbers {
			for _, pid := range sleepers(number) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}()
	pids := map[string]int{}
	require.Eventually(t, func() bool {
		all := everySleeper()
		for name, number := range numbers {
			if list := all[number]; len(list) == 1 {
				pids[name] = list[0]
			} else {
				return false
			}
		}
		return true
	}, 30*time.Second, 200*time.Millisecond)
	r.stopExecutor(syscall.SIGKILL)
	left := everySleeper()
	for name, number := range numbers {
		require.NotEmpty(t, left[number], "%s: the test is about what is left", name)
	}

	came = r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	told := map[int]bool{}
	for _, line := range r.logLines("a process that an earlier executor left running was ended") {
		pid, _ := line["pid"].(float64)
		told[int(pid)] = true
		assert.NotContains(t, line["program"], " ", "no arguments in the log")
	}
	left = everySleeper()
	for name, number := range numbers {
		assert.Empty(t, left[number], "%s is left", name)
		assert.True(t, told[pids[name]], "%s, pid %d, is not in the log", name, pids[name])
	}
	t.Logf("%d trees; told of %d processes; %v", len(numbers), len(told), r.logLines("child processes are kept hold of")[1])

	// Another kill, with nothing running: nothing to tell.
	r.stopExecutor(syscall.SIGKILL)
	behind := len(r.logLines("a process that an earlier executor left running was ended"))
	came = r.next(eventRegistered)
	r.startExecutor()
	awaitEvent(t, came, eventRegistered)
	assert.Len(t, r.logLines("a process that an earlier executor left running was ended"), behind)
	r.stopExecutor(syscall.SIGTERM)
	if cgroup, _ := r.logLines("child processes are kept hold of")[0]["cgroup"].(string); cgroup != "" {
		assert.NoDirExists(t, cgroup, "after the end in good order")
	}
}

// Orphans come to the executor, are reaped there, and take no exit status with them. (case 14)
func TestOrphansAreReaped(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.startExecutor()
	s, err := r.current(ctx)
	require.NoError(t, err)
	for range 5 {
		_, err := s.Call(ctx, "bash", object{"command": `for i in 1 2 3 4; do (sleep 0.3 & exec setsid sleep 0.4) & disown; done; true`})
		require.NoError(t, err)
		p, err := s.Call(ctx, "bash", object{"command": `exit 7`})
		require.NoError(t, err)
		assert.Contains(t, p.Content[0].Text, "7")
	}
	assert.NotEmpty(t, childrenOf(r.executor.Process.Pid), "orphans, running or ended")
	assert.Eventually(t, func() bool { return len(childrenOf(r.executor.Process.Pid)) == 0 }, 20*time.Second, 200*time.Millisecond)
	r.stopExecutor(syscall.SIGTERM)
}

// logLines are the lines of the executors' log with that message.
func (r *rig) logLines(message string) (lines []map[string]any) {
	raw, err := os.ReadFile(r.log)
	require.NoError(r.t, err)
	for text := range bytes.Lines(raw) {
		var line map[string]any
		if json.Unmarshal(text, &line) == nil && line["msg"] == message {
			lines = append(lines, line)
		}
	}
	return lines
}

// sleepers are the processes that sleep for that number of seconds.
func sleepers(number string) []int { return everySleeper()[number] }

// everySleeper is all sleepers by their numbers, in one look at all processes, which is dear.
func everySleeper() map[string][]int {
	found := map[string][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if number, ok := strings.CutPrefix(string(text), "sleep\x00"); ok {
			number = strings.TrimSuffix(number, "\x00")
			found[number] = append(found[number], pid)
		}
	}
	return found
}
