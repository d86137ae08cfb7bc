package host

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// restEvery is how often it is looked whether a burst of work is over.
	restEvery = 15 * time.Second
	// burstBytes is how much is allocated in a burst that is worth the work.
	burstBytes = 16 << 20
	// restBytes is the most that is allocated in restEvery when nothing goes on.
	restBytes = 1 << 20
)

// RestMemory gives memory back to the system when a burst of work is over: the runtime itself keeps what it
// had at the peak for minutes, in a process that waits most of its life. It returns when ctx is done.
func RestMemory(ctx context.Context) {
	ticker := time.NewTicker(restEvery)
	defer ticker.Stop()
	var r rest
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			switch r.next(used()) {
			case freeMemory:
				debug.FreeOSMemory()
			case forgetCode:
				forgetProgram()
			}
		}
	}
}

// rest finds the end of bursts.
type rest struct {
	last, freed uint64
	collected   uint64 // collections before the program was forgotten
}

// What is to be done at the end of a burst.
type restAction int

const (
	nothing restAction = iota
	freeMemory
	forgetCode
)

// next takes how much has been allocated so far and how often garbage was collected, in all, and says what is
// to be done. The program is forgotten one look after a collection, whoever began it: a collection shrinks
// the stacks, and growing them again with what comes next reads tables all over the program.
func (r *rest) next(allocated, collections uint64) restAction {
	quiet := allocated-r.last < restBytes
	r.last = allocated
	switch {
	case !quiet:
		return nothing
	case r.freed == 0 || allocated-r.freed >= burstBytes: // the start is a burst too
		r.freed = allocated
		return freeMemory
	case collections != r.collected:
		r.collected = collections
		return forgetCode
	}
	return nothing
}

// used is how many bytes this process has ever allocated, and how often garbage was collected. It stops the
// program for some microseconds; package runtime/metrics would not, and costs more at every start.
func used() (allocated, collections uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc, uint64(m.NumGC)
}
