package search

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxWorkers is how many goroutines one search has at most.
	maxWorkers = 12
	// batch is how many files of one directory one goroutine looks at in a row before
	// others may help.
	batch = 64
	// direntBytes is what one goroutine reads of a directory at a time.
	direntBytes = 32 << 10
)

// walkOptions say where a walk goes.
type walkOptions struct {
	hidden   bool
	noIgnore bool
	dotted   []wild                // hidden names that are meant all the same
	enter    func(dir string) bool // dir below the start, "a/b/"; nil: everywhere
}

// visitor gets the entries of a walk. Each belongs to one goroutine.
type visitor interface {
	// visit is called for each entry that is not left out, also for directories. path is that
	// of the directory below the start, "a/b/" or "". d is open during the call only.
	visit(d dir, path string, e entry)
}

// walk goes through the tree below s until it has seen all of it or ctx is done. It calls
// visitors(i) for the visitor of each of its goroutines, one after the other, and ends
// when all of them have ended. What it left out is returned.
func walk(ctx context.Context, s *start, o walkOptions, visitors func() visitor) Skipped {
	w := &walker{ctx: ctx, start: s, opts: o}
	w.wake.L = &w.mu
	stop := context.AfterFunc(ctx, func() {
		w.stopped.Store(true)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wake.Broadcast()
	})
	defer stop()
	root := &node{dir: s.dir, start: true}
	root.refs.Store(1)
	w.jobs = []job{{in: root, path: s.path, rules: s.rules}}

	n := min(runtime.GOMAXPROCS(0), maxWorkers)
	workers := make([]worker, n)
	var running sync.WaitGroup
	for i := range workers {
		k := &workers[i]
		k.walker, k.visitor = w, visitors()
		k.buf = listings.Get().(*[direntBytes]byte)
		running.Go(k.work)
	}
	running.Wait()
	for i := range workers {
		listings.Put(workers[i].buf)
	}
	for _, j := range w.jobs { // left by a canceled walk
		j.in.release()
	}
	var all Skipped
	for i := range workers {
		all.add(&workers[i].skipped)
	}
	return all
}

// node is an open directory that jobs still need.
type node struct {
	dir   dir
	refs  atomic.Int32
	start bool // owned by the start
}

func (n *node) release() {
	if n.refs.Add(-1) == 0 && !n.start {
		n.dir.close()
	}
}

// job is a directory to go through, or some entries of one to visit. It holds one
// reference on the directory it is in.
type job struct {
	in    *node
	name  string // of the directory in in; "" is in itself
	path  string // below the root, of the directory; "a/b/"
	rules *rules // that hold in it, without its own
	some  []entry
}

// walker is one walk. Jobs are taken last first, so that few directories are open at once.
type walker struct {
	ctx     context.Context
	start   *start
	opts    walkOptions
	stopped atomic.Bool

	mu   sync.Mutex
	wake sync.Cond
	jobs []job
	busy int // workers that have a job
	idle atomic.Int32
}

func (w *walker) push(jobs ...job) {
	if len(jobs) == 0 {
		return
	}
	w.mu.Lock()
	w.jobs = append(w.jobs, jobs...)
	w.mu.Unlock()
	if w.idle.Load() > 0 {
		w.wake.Broadcast()
	}
}

// next waits for a job; ok is false when there will be none.
func (w *walker) next() (j job, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.jobs) == 0 && w.busy > 0 && !w.stopped.Load() {
		w.idle.Add(1)
		w.wake.Wait()
		w.idle.Add(-1)
	}
	if len(w.jobs) == 0 || w.stopped.Load() {
		w.wake.Broadcast()
		return job{}, false
	}
	last := len(w.jobs) - 1
	j = w.jobs[last]
	w.jobs[last] = job{}
	w.jobs = w.jobs[:last]
	w.busy++
	return j, true
}

func (w *walker) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if w.busy == 0 && len(w.jobs) == 0 {
		w.wake.Broadcast()
	}
}

// listings are the buffers that directories are read with, of walks that have ended.
var listings = sync.Pool{New: func() any { return new([direntBytes]byte) }}

// worker is one goroutine of a walk.
type worker struct {
	*walker
	visitor visitor
	skipped Skipped
	buf     *[direntBytes]byte
	entries []entry
	files   []entry
	dirs    []job
}

func (k *worker) work() {
	for {
		j, ok := k.next()
		if !ok {
			return
		}
		if j.some != nil {
			k.visitAll(j.in.dir, j.path, j.some)
			j.in.release()
		} else {
			k.directory(j)
		}
		k.done()
	}
}

// below is a path below the start.
func (k *worker) below(path string) string { return path[len(k.start.path):] }

func (k *worker) directory(j job) {
	n := j.in
	if j.name != "" {
		d, err := j.in.dir.open(j.name)
		j.in.release()
		if err != nil {
			k.unreadable(j.path, err)
			return
		}
		n = &node{dir: d}
		n.refs.Store(1)
	}
	defer n.release()
	var err error
	k.entries, err = n.dir.list(k.entries[:0], k.buf[:])
	if err != nil {
		k.unreadable(j.path, err)
	}
	rules := j.rules
	if !k.opts.noIgnore {
		rules = rules.extend(k.start, n.dir, k.marks(), j.path)
	}
	k.files, k.dirs = k.files[:0], k.dirs[:0]
	below := k.below(j.path)
	for _, e := range k.entries {
		if k.stopped.Load() {
			break
		}
		if k.leaveOut(rules, j.path, e) {
			continue
		}
		k.files = append(k.files, e)
		if e.kind != kindDir {
			continue
		}
		if path := below + e.name + "/"; k.opts.enter == nil || k.opts.enter(path) {
			k.dirs = append(k.dirs, job{in: n, name: e.name, path: j.path + e.name + "/", rules: rules})
		}
	}
	// Others may begin with what is below and with the rest of many files.
	files := k.files
	for len(files) > 2*batch {
		some := append([]entry(nil), files[len(files)-batch:]...)
		files = files[:len(files)-batch]
		k.dirs = append(k.dirs, job{in: n, path: j.path, some: some})
	}
	n.refs.Add(int32(len(k.dirs)))
	k.push(k.dirs...)
	k.visitAll(n.dir, j.path, files)
}

func (k *worker) visitAll(d dir, path string, entries []entry) {
	path = k.below(path)
	for _, e := range entries {
		if k.stopped.Load() {
			return
		}
		k.visitor.visit(d, path, e)
	}
}

func (k *worker) marks() (m marks) {
	for i := range k.entries {
		switch k.entries[i].name {
		case ".gitignore":
			m.gitignore = true
		case ".ignore":
			m.ignore = true
		case ".git":
			m.git = true
		}
	}
	return m
}

// leaveOut applies the rules and counts. A rule with ! that names a hidden entry shows it.
// What git keeps in .git is ignored without a word.
func (k *worker) leaveOut(rules *rules, dir string, e entry) bool {
	hidden := e.name[0] == '.'
	if !k.opts.noIgnore {
		if hidden && e.name == ".git" {
			return true
		}
		switch rules.match(dir, e.name, e.kind == kindDir) {
		case ignored:
			k.skipped.Ignored++
			return true
		case kept:
			return false
		}
	}
	if !hidden || k.opts.hidden {
		return false
	}
	for _, d := range k.opts.dotted {
		if d.match(e.name) {
			return false
		}
	}
	k.skipped.Hidden++
	return true
}

func (k *worker) unreadable(path string, err error) {
	k.skipped.unreadable(k.start.show(k.below(path)), err)
}

// show is a path below the start as results show it, not quoted.
func (s *start) show(below string) string {
	below = strings.TrimSuffix(below, "/")
	switch {
	case below == "" && s.shown == "":
		return "."
	case below == "":
		return s.shown
	case s.shown == "":
		return below
	case strings.HasSuffix(s.shown, "/"): // the root of the file system
		return s.shown + below
	}
	return s.shown + "/" + below
}

func (s *Skipped) unreadable(path string, err error) {
	if gone(err) {
		return
	}
	s.UnreadableCount++
	s.Unreadable = append(s.Unreadable, Unreadable{quoted(path), reason(err)})
	if len(s.Unreadable) > 8*MaxUnreadable {
		s.sort()
	}
}
