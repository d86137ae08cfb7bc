package atomicfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Case 151: a script that was just written is not busy, whatever else is being started meanwhile.
func TestWrittenScriptRunsAtOnce(t *testing.T) {
	path, dir := newDir(t)
	each := 8
	if os.Getenv("EXECUTOR_STRESS") != "" {
		each = 100
	}
	var wg sync.WaitGroup
	var busy atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := range each {
				name := strconv.Itoa(w) + "-" + strconv.Itoa(i%5) // new ones and replaced ones
				if _, err := Write(dir, name, []byte("#!/bin/sh\nexit 3\n"), Options{Perm: 0o755}); !assert.NoError(t, err) {
					return
				}
				// By another program's exec, which does not try again as the executor's own start does.
				err := exec.Command("/bin/sh", "-c", `exec "$0"`, filepath.Join(path, name)).Run()
				var exit *exec.ExitError
				if !assert.ErrorAs(t, err, &exit) {
					return
				}
				if exit.ExitCode() != 3 {
					busy.Add(1)
				}
			}
		})
	}
	wg.Wait()
	assert.Zero(t, busy.Load())
}

// As long as somebody has the file open for writing it is waited for, but not for ever.
func TestWriteWaitsForWriters(t *testing.T) {
	path, dir := newDir(t)
	file := filepath.Join(path, "file")
	_, err := Write(dir, "file", []byte("x"), Options{})
	require.NoError(t, err)
	require.NoError(t, os.Link(file, file+"2")) // written in place, under a writer
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	got, err := Write(dir, "file", []byte("y"), Options{})
	require.NoError(t, err)
	assert.True(t, got.InPlace)
	require.NoError(t, f.Close())

	handle, err := dir.Open(".")
	require.NoError(t, err)
	defer handle.Close()
	w := &writer{dir: dir, handle: handle, name: "file"}
	f, err = os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.awaitStarts(time.Minute)
	}()
	select {
	case <-ended:
		t.Error("it did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	require.NoError(t, f.Close())
	<-ended
}
