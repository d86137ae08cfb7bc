package redact

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MinLength is how many bytes a secret has at least. A shorter one would tear up ordinary text, and is
// ignored.
const MinLength = 8

// MaxLength is how many bytes of a longer secret are looked for: its first ones. It bounds what a Stream
// holds back.
const MaxLength = 16 << 10

// renewed is how many secrets of Renew are remembered: a source may give ever new ones.
const renewed = 16

// Redactor takes secrets out of what goes out. Its methods may be called concurrently; a nil one knows no
// secret. It has no end: it is garbage when nobody uses it.
type Redactor struct {
	current atomic.Pointer[matcher] // nil: no secret is known

	mu      sync.Mutex // over what follows
	kept    []known
	renewed []known // the newest last
	held    map[*hold][]known
}

// hold is one call of Hold.
type hold struct{ _ byte }

// known is a secret and what is looked for.
type known struct {
	secret string
	forms  []string
}

// New makes a Redactor that knows the secrets; see Add for which of them are ignored.
func New(secrets ...string) *Redactor {
	r := &Redactor{held: map[*hold][]known{}}
	r.Add(secrets...)
	return r
}

// Add tells it secrets, for good. White space around one is no part of it. One of several lines is looked for
// as a whole and by each of its longer lines, as programs often print it. It returns how many were ignored
// since they have less than MinLength bytes; an empty one does not count.
func (r *Redactor) Add(secrets ...string) (ignored int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	good, ignored := usable(secrets)
	for _, k := range good {
		if !slices.ContainsFunc(r.kept, k.same) {
			r.kept = append(r.kept, k)
		}
	}
	if len(good) > 0 {
		r.rebuild()
	}
	return ignored
}

// Renew is Add for the next secret of a source that gives ever new ones: the newest 16 are remembered.
func (r *Redactor) Renew(secret string) (ignored int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	good, ignored := usable([]string{secret})
	for _, k := range good {
		if n := len(r.renewed); n > 0 && k.same(r.renewed[n-1]) {
			continue
		}
		r.renewed = append(slices.DeleteFunc(r.renewed, k.same), k)
		if len(r.renewed) > renewed {
			r.renewed = r.renewed[1:]
		}
		r.rebuild()
	}
	return ignored
}

// Hold is Add until release is called, which may be called twice.
func (r *Redactor) Hold(secrets ...string) (release func()) {
	good, _ := usable(secrets)
	if r == nil || len(good) == 0 {
		return func() {}
	}
	h := new(hold)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[h] = good
	r.rebuild()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, ok := r.held[h]; ok {
			delete(r.held, h)
			r.rebuild()
		}
	}
}

func (k known) same(other known) bool { return k.secret == other.secret }

// usable are the secrets that can be looked for.
func usable(secrets []string) (good []known, ignored int) {
	for _, s := range secrets {
		s = strings.TrimSpace(s)
		switch {
		case s == "":
		case len(join(s)) < MinLength:
			ignored++
		default:
			s = strings.TrimSpace(strings.Clone(s[:min(len(s), MaxLength)]))
			good = append(good, known{s, forms(s)})
		}
	}
	return good, ignored
}

// rebuild makes the matcher anew. It is called with the lock held.
func (r *Redactor) rebuild() {
	all := map[string]bool{}
	add := func(secrets []known) {
		for _, k := range secrets {
			for _, form := range k.forms {
				if form = join(form); len(form) >= MinLength {
					all[form] = true
				}
			}
		}
	}
	add(r.kept)
	add(r.renewed)
	for _, secrets := range r.held {
		add(secrets)
	}
	r.current.Store(newMatcher(slices.Sorted(maps.Keys(all))))
}

// matcher is what is looked for now; nil for nothing.
func (r *Redactor) matcher() *matcher {
	if r == nil {
		return nil
	}
	return r.current.Load()
}

// mark stands for a secret where its length does not matter.
const mark = "[redacted]"

// Bytes returns p with "[redacted]" for each secret: p itself when there is none, and a copy otherwise.
func (r *Redactor) Bytes(p []byte) []byte {
	spans := r.matcher().spans(p)
	if len(spans) == 0 {
		return p
	}
	out := make([]byte, 0, len(p))
	at := 0
	for _, s := range spans {
		out = append(out, p[at:s.from]...)
		out = append(out, mark...)
		at = s.to
	}
	return append(out, p[at:]...)
}

// String is Bytes for a string.
func (r *Redactor) String(s string) string {
	if r.matcher() == nil {
		return s
	}
	p := []byte(s)
	out := r.Bytes(p)
	if len(out) == len(p) && (len(p) == 0 || &out[0] == &p[0]) {
		return s
	}
	return string(out)
}

// Mask returns p with an asterisk for each byte of a secret that is no end of a line: p itself when there is none, and a copy
// otherwise.
func (r *Redactor) Mask(p []byte) []byte {
	spans := r.matcher().spans(p)
	if len(spans) == 0 {
		return p
	}
	out := slices.Clone(p)
	for _, s := range spans {
		blot(out[s.from:s.to])
	}
	return out
}

// MaskString is Mask for a string.
func (r *Redactor) MaskString(s string) string {
	if r.matcher() == nil {
		return s
	}
	p := []byte(s)
	if out := r.Mask(p); len(p) > 0 && &out[0] != &p[0] {
		return string(out)
	}
	return s
}

// blot overwrites p with asterisks, but for the ends of lines.
func blot(p []byte) {
	for i, b := range p {
		if !isEnd(b) {
			p[i] = '*'
		}
	}
}
