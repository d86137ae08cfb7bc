package rpc

import "sync"

// maxIdleWorkers bounds the goroutines a connection keeps for its next requests.
const maxIdleWorkers = 16

// workers are goroutines that handle requests one after another. They are kept,
// because a new goroutine grows its stack anew at each request, which costs more than
// the request. The one that became idle last is used first.
type workers struct {
	c     *Conn
	mu    sync.Mutex
	idle  []chan task
	ended bool
}

// task is a job, with the lane whose further jobs are to be done after it.
type task struct {
	job  job
	name string
	lane *lane
}

// do hands a task to a worker. It is called by the read loop only, which keeps the
// connection's count above zero meanwhile.
func (w *workers) do(t task) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		next := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		next <- t
		return
	}
	w.mu.Unlock()
	w.c.work.Add(1)
	go w.work(t)
}

func (w *workers) work(t task) {
	defer w.c.work.Done()
	next := make(chan task, 1)
	for ok := true; ok; t, ok = <-next {
		w.c.do(&t)
		t = task{}
		w.mu.Lock()
		if w.ended || len(w.idle) == maxIdleWorkers {
			w.mu.Unlock()
			return
		}
		w.idle = append(w.idle, next)
		w.mu.Unlock()
	}
}

// end lets the idle workers go, and the others when they have done their task.
func (w *workers) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, next := range w.idle {
		close(next)
	}
	w.idle = nil
}
