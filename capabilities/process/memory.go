package process

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// reasonRestarted is that of a process which a restart of the executor has ended.
const reasonRestarted = "executor_restarted"

// notePrefix begins the keys of what is noted of processes; their ids follow.
const notePrefix = "process/"

// record is what is noted of a process, before it starts and when it has ended: after a kill of the
// executor it does not run a second time.
type record struct {
	Spec      []byte                   `json:"spec"` // specHash
	StartedAt time.Time                `json:"started_at"`
	Merge     bool                     `json:"merge,omitempty"`
	PID       int                      `json:"pid,omitempty"`
	End       *ending                  `json:"end,omitempty"` // nil: it was about to start, or ran
	Cursors   *protocol.ProcessCursors `json:"cursors,omitempty"`
}

// ending is how a process ended.
type ending struct {
	At     time.Time `json:"at"`
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Code   *int      `json:"code,omitempty"`
	Signal string    `json:"signal,omitempty"`
}

// note notes a process as it stands.
func (t *table) note(ch *child) {
	r := record{Spec: ch.spec[:], StartedAt: ch.startedAt, Merge: ch.merge, PID: ch.pid}
	ch.mu.Lock()
	if ch.state != protocol.ProcessRunning {
		r.End = &ending{At: ch.endedAt, State: ch.state, Reason: ch.reason, Code: ch.code, Signal: ch.signal}
		switch {
		case ch.former:
			r.Cursors = ch.cursors
		case ch.stdout.Closed() && ch.stderr.Closed(): // else more may come
			r.Cursors = &protocol.ProcessCursors{Stdout: ch.stdout.End(), Stderr: ch.stderr.End()}
		}
	}
	ch.mu.Unlock()
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("process: marshal a record: %v", err)) // plain data
	}
	t.session.Note(notePrefix+ch.id, raw)
}

func (t *table) forgetNote(id string) { t.session.ForgetNote(notePrefix + id) }

// forgetNotes forgets the notes of those that are not even remembered any more.
func (t *table) forgetNotes() {
	t.mu.Lock()
	ids := t.unknown
	t.unknown = nil
	t.mu.Unlock()
	for _, id := range ids {
		t.forgetNote(id)
	}
}

// restore takes in what was noted before a restart of the executor. All those processes are gone; the
// brain is told of each that is still kept.
func (t *table) restore() {
	var all []*child
	for id, raw := range t.session.Notes(notePrefix) {
		var r record
		if err := json.Unmarshal(raw, &r); err != nil || len(r.Spec) != len(specHash{}) {
			t.session.Logger().Warn("the note of a process cannot be read; it is not started again", zap.Error(err))
			r = record{}
		}
		ch := formerChild(id, r)
		if r.End == nil {
			t.note(ch) // that it ended now, not with the next restart
		}
		all = append(all, ch)
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b *child) int { return cmp.Or(a.startedAt.Compare(b.startedAt), cmp.Compare(a.id, b.id)) })
	t.mu.Lock()
	for _, ch := range all {
		t.all[ch.id] = ch
		t.order = append(t.order, ch)
	}
	t.finished = slices.Clone(t.order)
	slices.SortStableFunc(t.finished, func(a, b *child) int { return a.endedAt.Compare(b.endedAt) })
	t.prune(time.Now())
	kept := slices.Clone(t.finished)
	t.mu.Unlock()
	t.forgetNotes()
	for _, ch := range kept {
		t.tell(ch)
	}
}

// formerChild is a process of before a restart, of which nothing is left but what was noted.
func formerChild(id string, r record) *child {
	ch := newChild(protocol.ProcessStartParams{ProcessID: id, Stderr: protocol.StderrSeparate}, specHash{}, 0)
	copy(ch.spec[:], r.Spec)
	ch.former, ch.cursors, ch.merge = true, r.Cursors, r.Merge
	ch.pid, ch.startedAt = r.PID, r.StartedAt
	if end := r.End; end != nil {
		ch.state, ch.reason, ch.code, ch.signal, ch.endedAt = end.State, end.Reason, end.Code, end.Signal, end.At
	} else {
		ch.state, ch.reason, ch.endedAt = protocol.ProcessFailed, reasonRestarted, time.Now()
	}
	close(ch.started)
	close(ch.ended)
	close(ch.gone)
	return ch
}

// formerRing is the log of a process of before a restart, whose bytes are gone: it has ended, at the end
// it had or, where that is not known or passed, at the cursor that is asked for. How much is missing is
// not known of one that was ended by the restart, so that there is always a gap.
func (ch *child) formerRing(name string, cursor int64) *stream.Ring {
	if ch.cursors == nil {
		return stream.NewLost(cursor)
	}
	end := ch.cursors.Stdout
	if name == protocol.StreamStderr {
		end = ch.cursors.Stderr
	}
	return stream.NewEnded(max(end, cursor))
}
