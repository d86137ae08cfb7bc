package executor

import (
	"context"
	"sync"
	"time"
)

const (
	// wakeEvery is how often it is looked whether this process was away: so soon after
	// waking it is noticed. Where Options.Woken says it too, wakeSeldom is enough.
	wakeEvery  = 2 * time.Second
	wakeSeldom = 10 * time.Second
	// sleptFor is what counts as a suspend, lateBy as a stop: a timer of a busy machine
	// is late too.
	sleptFor = time.Second
	lateBy   = 2 * time.Second
)

// wakeWatch notices that the machine was suspended, or this process stopped, and has
// woken: what was waited for, and whom one was connected to, may be long gone. Its
// methods may be used concurrently; run is called once and ends with its context.
type wakeWatch struct {
	mu    sync.Mutex
	slept chan struct{} // closed and replaced when the machine has been suspended
	away  chan struct{} // likewise, and also when only this process has not run
}

func newWakeWatch() *wakeWatch {
	return &wakeWatch{slept: make(chan struct{}), away: make(chan struct{})}
}

// afterSleep is closed when the machine has woken from a suspend that ended after the call.
func (w *wakeWatch) afterSleep() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slept
}

// afterAway is closed when this process runs again after it did not, for whatever reason.
func (w *wakeWatch) afterAway() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.away
}

// run looks until ctx is done, and whenever told says that this process was away; that may
// be nil.
func (w *wakeWatch) run(ctx context.Context, l *lease, told <-chan struct{}) {
	every := wakeEvery
	if told != nil {
		every = wakeSeldom
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for before, asleep := time.Now(), l.asleepSoFar(); ; {
		away := false
		select {
		case <-timer.C:
		case <-told:
			away = time.Since(before) >= wakeEvery // not again and again
		case <-ctx.Done():
			return
		}
		timer.Reset(every)
		now, total := time.Now(), l.asleepSoFar()
		slept := total - asleep
		if !knowsSuspended { // then the wall clock, which may also have been set, is a hint
			slept = now.Round(0).Sub(before.Round(0)) - now.Sub(before)
		}
		late := now.Sub(before) - every
		before, asleep = now, total
		switch {
		case slept > sleptFor:
			w.woke(true)
		case away, late > lateBy:
			w.woke(false)
		}
	}
}

func (w *wakeWatch) woke(slept bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.away)
	w.away = make(chan struct{})
	if slept {
		close(w.slept)
		w.slept = make(chan struct{})
	}
}

// pause waits for delay, and returns true; false when ctx is done first. It is cut
// short when the machine wakes from a suspend, but not below floor, which is what the
// brain asked for and goes on while the machine is suspended.
func (e *Executor) pause(ctx context.Context, delay, floor time.Duration) bool {
	slept := e.wakes.afterSleep()
	begun := e.lease.now()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-slept:
			slept = e.wakes.afterSleep()
			timer.Reset(max(0, floor-e.lease.now().Sub(begun)))
		case <-ctx.Done():
			return false
		}
	}
}
