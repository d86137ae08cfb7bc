package spawn

import (
	"runtime"
	"sync"
)

// forker starts children from one thread of the system that lives as long as the forker. Where the
// system ends a child with its parent, the parent is that thread: any other one of the program may end
// at any time, with all it has ever started.
type forker struct {
	mu   sync.RWMutex // over work: it is not closed under a caller
	work chan func()
	done chan struct{}

	confined bool // the thread is in a sandbox
}

// startForker starts the thread, and has it call enter first, if there is one. It ends with stop.
func startForker(enter func() error) (*forker, error) {
	f := &forker{work: make(chan func()), done: make(chan struct{}), confined: enter != nil}
	entered := make(chan error, 1)
	go f.run(f.work, enter, entered)
	if err := <-entered; err != nil {
		<-f.done
		return nil, err
	}
	return f, nil
}

func (f *forker) run(works <-chan func(), enter func() error, entered chan<- error) {
	runtime.LockOSThread()               // for good: the thread ends with this goroutine
	if enter != nil && onFirstThread() { // which does not end, and stands for the whole process in much
		moved := make(chan error, 1)
		go f.run(works, enter, moved) // it cannot get this thread
		entered <- <-moved
		runtime.UnlockOSThread()
		return
	}
	defer close(f.done)
	if enter != nil {
		if err := enter(); err != nil {
			entered <- err
			return
		}
	}
	entered <- nil
	for work := range works {
		work()
	}
}

// do runs work on the thread and waits for it; after stop on the caller's own, and says so.
func (f *forker) do(work func(lasting bool)) {
	f.mu.RLock()
	if f.work == nil {
		f.mu.RUnlock()
		work(false)
		return
	}
	defer f.mu.RUnlock()
	done := make(chan struct{})
	f.work <- func() {
		defer close(done)
		work(true)
	}
	<-done
}

// stop ends the thread, and with it the children it started that are still there. A second call does
// nothing.
func (f *forker) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.work != nil {
		close(f.work)
		f.work = nil
	}
	<-f.done
}
