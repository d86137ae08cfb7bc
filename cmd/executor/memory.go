package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// restEvery is how often it is looked whether a burst of work is over.
	restEvery = 10 * time.Second
	// burstBytes is how much is allocated in a burst that is worth the work.
	burstBytes = 16 << 20
	// restBytes is the most that is allocated in restEvery when nothing goes on.
	restBytes = 1 << 20
)

// restMemory gives memory back to the system when a burst of work is over: the runtime itself keeps what it
// had at the peak for minutes, in a process that waits most of its life. It returns when ctx is done.
func restMemory(ctx context.Context) {
	ticker := time.NewTicker(restEvery)
	defer ticker.Stop()
	var r rest
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if r.over(allocated()) {
				debug.FreeOSMemory()
				forgetProgram()
			}
		}
	}
}

// rest finds the end of bursts.
type rest struct{ last, freed uint64 }

// over takes how much has been allocated so far, in all, and says whether a burst has come to its end.
func (r *rest) over(now uint64) bool {
	quiet := now-r.last < restBytes
	r.last = now
	if !quiet || r.freed > 0 && now-r.freed < burstBytes { // the start is a burst too
		return false
	}
	r.freed = now
	return true
}

// allocated is how many bytes this process has ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
