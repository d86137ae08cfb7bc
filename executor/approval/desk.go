// Package approval is where requests wait until the local user has decided on them.
//
//	desk, err := approval.New(approval.Options{File: path})
//	ticket, err := desk.Ask(question)    // at the executor's gate
//	answer, err := ticket.Wait(ctx)      // until it is decided, or ctx is done
//	desk.Pending()                       // what waits, for whoever asks the user
//	desk.Decide(id, approval.Answer{Allow: true, Scope: approval.Once})
//
// A decision can hold for the same thing in the same session, or always; those that hold always are kept in a
// file (memory.go). Nothing here is a goroutine: a question's end is a timer's or its session's.
package approval

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Scope is how far a decision reaches.
type Scope string

// The scopes.
const (
	Once    Scope = "once"
	Session Scope = "session" // the same subject in the same session
	Always  Scope = "always"  // the same subject, whoever asks
)

// Options of New. Zero fields are defaults.
type Options struct {
	Timeout    time.Duration // of a question; 10 minutes
	MaxWaiting int           // questions at once; 16
	File       string        // keeps what is allowed always; "": until the end of the process
	Logger     *zap.Logger
}

// Defaults of Options.
const (
	DefaultTimeout    = 10 * time.Minute
	DefaultMaxWaiting = 16
)

// Question is what the local user is asked.
type Question struct {
	Session string          // its ID
	Life    context.Context // ends with the session, and so does the question
	Brain   string
	Tool    string // or the method
	Call    string // tool_call_id, or what a method is about
	What    string // what is going to be done: a command, or the input
	Dir     string // where
	Rule    string // what wants it asked, and why
	Why     string

	// Subject is what a decision for the session or always holds for; "" when it can hold once only.
	Subject string
	// Again: who asks with the same Session, Tool, Call and this again gets the same decision; "" for nobody.
	Again string
	// Note is the asker's own, see [Ticket.Note].
	Note any
	// Decided is called once, when the question has its answer. It must not wait.
	Decided func(Answer)
}

// Item is a question that waits.
type Item struct {
	ID      string    `json:"id"`
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires"`
	Session string    `json:"session,omitempty"`
	Brain   string    `json:"brain,omitempty"`
	Tool    string    `json:"tool"`
	Call    string    `json:"call,omitempty"`
	What    string    `json:"what"`
	Dir     string    `json:"dir,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	Why     string    `json:"why,omitempty"`
	// OnceOnly: the decision can hold for nothing else.
	OnceOnly bool `json:"once_only,omitempty"`
}

// Answer is a decision, or the end of a question without one.
type Answer struct {
	Allow     bool
	Scope     Scope
	By        string // who has decided, for the audit log
	Expired   bool   // nobody has, in time
	Withdrawn bool   // nobody has to any more
}

// ErrBusy is the error of Ask when too many questions wait.
var ErrBusy = errors.New("too many calls wait for the local user's confirmation")

// ErrUnknown is wrapped by the error of Decide for an ID under which nothing waits.
var ErrUnknown = errors.New("nothing waits under this ID")

// Desk may be used concurrently. It ends with its last question.
type Desk struct {
	options Options
	log     *zap.Logger

	mu       sync.Mutex
	waiting  []*Ticket // oldest first
	again    map[againKey]*Ticket
	sessions map[string]map[string]bool // subjects allowed in each
	rules    []Rule
	changed  chan struct{} // closed when waiting changes
}

type againKey struct{ session, tool, call, again string }

// Ticket is a question with its answer to come. Its methods may be called concurrently.
type Ticket struct {
	desk     *Desk
	item     Item
	question Question
	done     chan struct{}
	answer   Answer // after done
	timer    *time.Timer
	unbind   func() bool // from the session's life
}

// New makes a desk, with what its file says is allowed always. A file that cannot be read is set aside, with a
// warning in the log: then nothing is. The error is one of the file system.
func New(o Options) (*Desk, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	d := &Desk{options: o, log: o.Logger.Named("approval"), again: map[againKey]*Ticket{}, sessions: map[string]map[string]bool{}, changed: make(chan struct{})}
	if err := d.load(); err != nil {
		return nil, err
	}
	return d, nil
}

// Remembered returns the scope of an earlier decision that allows the subject; "" for none.
func (d *Desk) Remembered(session, subject string) Scope {
	if subject == "" {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case slices.ContainsFunc(d.rules, func(r Rule) bool { return r.Subject == subject }):
		return Always
	case d.sessions[session][subject]:
		return Session
	}
	return ""
}

// Ask puts a question. fresh is false when it is the one that was asked before. The error is ErrBusy, or that of a
// session that has ended.
func (d *Desk) Ask(q Question) (t *Ticket, fresh bool, err error) {
	if q.Life == nil {
		q.Life = context.Background()
	}
	if q.Life.Err() != nil {
		return nil, false, context.Cause(q.Life)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := againKey{q.Session, q.Tool, q.Call, q.Again}
	if before := d.again[key]; q.Again != "" && before != nil {
		return before, false, nil
	}
	if len(d.waiting) >= d.options.MaxWaiting {
		return nil, false, ErrBusy
	}
	now := time.Now()
	t = &Ticket{desk: d, question: q, done: make(chan struct{}), item: Item{ID: d.newID(), Since: now, Expires: now.Add(d.options.Timeout),
		Session: q.Session, Brain: q.Brain, Tool: q.Tool, Call: q.Call, What: q.What, Dir: q.Dir, Rule: q.Rule, Why: q.Why, OnceOnly: q.Subject == ""}}
	d.waiting = append(d.waiting, t)
	if q.Again != "" {
		d.again[key] = t
	}
	t.timer = time.AfterFunc(d.options.Timeout, func() { d.finish(t, Answer{Expired: true}) })
	t.unbind = context.AfterFunc(q.Life, func() { d.endOf(t, key) })
	d.tell()
	d.log.Info("a call waits for the local user", zap.String("id", t.item.ID), zap.String("tool", q.Tool), zap.String("session", q.Session), zap.String("rule", q.Rule))
	return t, true, nil
}

// endOf is called when the session of a question has ended.
func (d *Desk) endOf(t *Ticket, key againKey) {
	d.finish(t, Answer{Withdrawn: true})
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.again, key)
	delete(d.sessions, key.session)
}

// newID is short, for people, and not one of those that wait. d.mu is held.
func (d *Desk) newID() string {
	for {
		var b [3]byte
		_, _ = rand.Read(b[:]) // never fails
		id := hex.EncodeToString(b[:])
		if !slices.ContainsFunc(d.waiting, func(t *Ticket) bool { return t.item.ID == id }) {
			return id
		}
	}
}

// tell wakes up whoever watches. d.mu is held.
func (d *Desk) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// finish gives a question its answer, if it has none yet.
func (d *Desk) finish(t *Ticket, a Answer) bool {
	d.mu.Lock()
	i := slices.Index(d.waiting, t)
	if i < 0 {
		d.mu.Unlock()
		return false
	}
	d.waiting = slices.Delete(d.waiting, i, i+1)
	t.answer = a
	t.timer.Stop()
	if t.question.Again == "" && !(a.Allow && a.Scope == Session) {
		t.unbind() // nothing of it is left for the session's end
	}
	if a.Allow && a.Scope == Session && t.question.Life.Err() == nil {
		if d.sessions[t.item.Session] == nil {
			d.sessions[t.item.Session] = map[string]bool{}
		}
		d.sessions[t.item.Session][t.question.Subject] = true
	}
	d.tell()
	d.mu.Unlock()
	if t.question.Decided != nil {
		t.question.Decided(a)
	}
	close(t.done)
	return true
}

// Decide answers a question. It may allow more than once only what has a subject. The error is ErrUnknown, or that of
// the file when the decision is to hold always: then nothing is decided.
func (d *Desk) Decide(id string, a Answer) error {
	if a.Scope == "" {
		a.Scope = Once
	}
	d.mu.Lock()
	i := slices.IndexFunc(d.waiting, func(t *Ticket) bool { return t.item.ID == id })
	if i < 0 {
		d.mu.Unlock()
		return fmt.Errorf("%w: %q; want the whole ID as executor approvals prints it; it may have been decided, have expired or not be wanted any more", ErrUnknown, id)
	}
	t := d.waiting[i]
	d.mu.Unlock()
	switch {
	case !a.Allow:
		a.Scope = Once
	case a.Scope != Once && t.question.Subject == "":
		return errors.New("the brain wants this asked each time, so it can be allowed once only")
	case a.Scope == Always:
		if err := d.remember(t); err != nil {
			return err
		}
	}
	if !d.finish(t, a) {
		return fmt.Errorf("%w: %q; it was decided in this moment", ErrUnknown, id)
	}
	return nil
}

// Pending lists what waits, oldest first.
func (d *Desk) Pending() []Item {
	items, _ := d.Watch()
	return items
}

// Watch lists what waits, and returns what is closed when that changes.
func (d *Desk) Watch() (items []Item, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	items = make([]Item, 0, len(d.waiting))
	for _, t := range d.waiting {
		items = append(items, t.item)
	}
	return items, d.changed
}

// Note is that of the question, as it was first asked.
func (t *Ticket) Note() any { return t.question.Note }

// ID is what the question is called.
func (t *Ticket) ID() string { return t.item.ID }

// Wait returns the answer. The error is that of ctx: a question that is asked again waits on then, any other is
// withdrawn.
func (t *Ticket) Wait(ctx context.Context) (Answer, error) {
	select {
	case <-t.done:
		return t.answer, nil
	default:
	}
	select {
	case <-t.done:
		return t.answer, nil
	case <-ctx.Done():
		if t.question.Again == "" {
			t.Withdraw()
		}
		return Answer{}, ctx.Err()
	}
}

// Withdraw ends a question that nobody wants answered any more.
func (t *Ticket) Withdraw() { t.desk.finish(t, Answer{Withdrawn: true}) }
