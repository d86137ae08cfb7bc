//go:build unix

package spawn

import "os"

// look is one look at the processes of the system for the members of a tree. The tree's lock is held.
type look struct {
	t             *tree
	self, session int
	rows          []row
	at            map[int]int   // indexes of rows, by pid
	children      map[int][]int // and by parent
	member        []bool        // of rows: found, or spared and looked at no more
	spared        []bool
	inside        map[int]bool // the control group
	found         []row
}

// scan lists the members that are alive: also one that was started, and whose parent ended, while it looks.
// Where members have labels it is one whole look at the table and then, each time, one at who is new
// since: what is none of the tree does not become one of it.
func (t *tree) scan() []row {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh()
	l := &look{t: t, self: os.Getpid(), session: ownSession(), at: map[int]int{}, children: map[int][]int{}}
	begin := numbered().counted()
	mark := begin
	if pids, ok := t.judged.newTo(begin); ok && !t.judged.longAgo(begin) {
		for pid := range t.known {
			l.read(pid)
		}
		for _, pid := range pids {
			l.read(pid)
		}
	} else {
		l.rows = processTable()
		for i := range l.rows {
			l.index(i)
		}
	}
	l.judge(0)
	for range 1000 { // ends when nobody was started meanwhile; the bound is for a system gone mad
		now := numbered()
		if now.last == mark.last {
			break
		}
		pids, ok := mark.newTo(now)
		if !ok { // all numbers were given out once, or it took very long
			mark = numbering{}
			break
		}
		had := len(l.rows)
		for _, pid := range pids {
			l.read(pid)
		}
		mark.last = now.last
		l.judge(had)
	}
	// The marker in an environment says less, and not at all times the same.
	if t.judged = mark; t.ours == nil || len(t.spared) > 0 {
		t.judged = numbering{}
	}
	dropDead(t.known) // it must not grow with a long-lived tree
	return l.found
}

// read adds a process to the rows.
func (l *look) read(pid int) {
	if _, have := l.at[pid]; have {
		return
	}
	if r, ok := rowOf(pid); ok {
		l.rows = append(l.rows, r)
		l.index(len(l.rows) - 1)
	}
}

func (l *look) index(i int) {
	r := l.rows[i]
	l.at[r.pid] = i
	l.children[r.ppid] = append(l.children[r.ppid], i)
}

// judge finds the members among the rows from an index on.
func (l *look) judge(from int) {
	t := l.t
	l.member = append(l.member, make([]bool, len(l.rows)-from)...)
	l.spared = append(l.spared, make([]bool, len(l.rows)-from)...)
	l.spare(from)
	l.inside = t.cgroup.pids() // after the rows: a number that is given anew meanwhile has another start
	for i, r := range l.rows[from:] {
		if parent, ok := l.at[r.ppid]; t.knows(r) || ok && parent < from && l.member[parent] && !l.spared[parent] {
			l.add(from + i)
		}
	}
	// What is left needs a look into each process, so only the young ones are asked.
	for i, r := range l.rows[from:] {
		if !l.member[from+i] && l.eligible(r) && (l.inside[r.pid] || t.claims(r, l.self, l.session)) {
			l.add(from + i)
		}
	}
}

// eligible says whether a process can be a member. Each child has a session of its own: what is in the
// executor's is none of theirs.
func (l *look) eligible(r row) bool {
	return !r.dead && r.pid != l.self && r.sid != l.session && r.start >= l.t.since && !l.t.exempt[r.pid]
}

// add takes a process for a member, and its descendants.
func (l *look) add(i int) {
	t, r := l.t, l.rows[i]
	if l.member[i] || !l.eligible(r) {
		return
	}
	l.member[i] = true
	if t.note != nil && t.known[r.pid] != r.start {
		t.note(r)
	}
	t.known[r.pid] = r.start
	l.found = append(l.found, r)
	for _, c := range l.children[r.pid] {
		if c < len(l.member) {
			l.add(c)
		}
	}
}

// spare marks the processes that belong to those that the tree spares, among the rows from an index on.
func (l *look) spare(from int) {
	if len(l.t.spared) == 0 {
		return
	}
	var mark func(i int)
	mark = func(i int) {
		if l.spared[i] {
			return
		}
		l.spared[i], l.member[i] = true, true
		for _, c := range l.children[l.rows[i].pid] {
			mark(c)
		}
	}
	for i, r := range l.rows[from:] {
		start, left := l.t.spared[r.pid]
		parent, ok := l.at[r.ppid]
		if left && start == r.start || ok && l.spared[parent] {
			mark(from + i)
		}
	}
}
