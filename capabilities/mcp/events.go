package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

const (
	minStreamDelay = time.Second
	maxStreamDelay = 30 * time.Second
	// maxField is how long a field of an event may be that is not its data.
	maxField = 1 << 10
)

// errNoStream is a server that has no stream to read from.
var errNoStream = errors.New("the server has no such stream")

// stream is an answer that is a stream of events. pump reads it.
type stream struct {
	w    *web
	p    *post // whose answer it is; nil for the standing stream
	body io.ReadCloser

	last   string        // id of the last event that had one
	retry  time.Duration // what the server wants to be waited before it is asked again; 0 when it does not say
	events int           // that have come
}

func newStream(w *web, resp *http.Response, p *post) *stream {
	return &stream{w: w, p: p, body: resp.Body}
}

// stream asks for the standing stream, or for the rest of one behind an event.
func (w *web) stream(ctx context.Context, last string, p *post) (*stream, error) {
	r, err := w.request(ctx, http.MethodGet, nil, nil)
	if err != nil {
		return nil, err
	}
	if last != "" {
		r.Header.Set(headerEvent, last)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return nil, bareError(err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusOK && kind == "text/event-stream":
		s := newStream(w, resp, p)
		s.last = last
		return s, nil
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		_ = resp.Body.Close()
		return nil, errors.New(statusError(resp, ""))
	}
	_ = resp.Body.Close()
	return nil, fmt.Errorf("%w: %s", errNoStream, statusError(resp, ""))
}

// pause is how long to wait before the server is asked again.
func (s *stream) pause() time.Duration {
	if s.retry > 0 {
		return s.retry
	}
	return minStreamDelay
}

// pump delivers the messages of a stream until it ends. The error is why; nil for an end as it should be.
func (s *stream) pump(ctx context.Context) error {
	defer s.body.Close()
	in := bufio.NewReaderSize(s.body, 32<<10)
	e := event{limit: s.w.relay.limit}
	for {
		part, err := in.ReadSlice('\n')
		whole := err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err // what has come of an event that is not whole does not count
		}
		if e.line(part, whole) {
			s.events++
			if err := s.take(ctx, &e); err != nil {
				return err
			}
			e = event{limit: s.w.relay.limit}
		}
	}
}

func (s *stream) take(ctx context.Context, e *event) error {
	if e.hasID {
		s.last = string(e.id)
	}
	if e.retry > 0 {
		s.retry = min(time.Duration(e.retry)*time.Millisecond, maxStreamDelay)
	}
	m := e.data
	if m == nil || len(e.kind) > 0 && string(e.kind) != "message" {
		return nil
	}
	if !m.tooLarge() {
		if m.text = bytes.TrimSpace(m.text); len(m.text) == 0 {
			return nil // it was for its id
		}
	}
	if s.p != nil {
		s.p.deliver(ctx, m)
		return nil
	}
	return s.w.relay.deliver(ctx, m)
}

// event is one event as it comes in.
type event struct {
	limit int
	data  *message // nil for none
	kind  []byte
	id    []byte
	hasID bool
	retry int64

	within bool   // a line has begun and not ended
	field  string // of that line
	value  []byte // of a field that is not data
}

// line takes in a line, or a part of one; whole says that the line ends with it. True: the event ends too.
func (e *event) line(part []byte, whole bool) bool {
	if whole {
		part = bytes.TrimSuffix(part, []byte("\n"))
		part = bytes.TrimSuffix(part, []byte("\r"))
	}
	begins := !e.within
	e.within = !whole
	if begins {
		if len(part) == 0 && whole {
			return true
		}
		name, value, _ := bytes.Cut(part, []byte(":"))
		part = bytes.TrimPrefix(value, []byte(" "))
		e.field, e.value = string(name[:min(len(name), maxField)]), nil
		if e.field == "data" {
			if e.data == nil {
				e.data = &message{limit: e.limit}
			} else {
				e.data.write([]byte("\n"))
			}
		}
	}
	if e.field == "data" {
		e.data.write(part)
		return false
	}
	e.value = append(e.value, part[:min(len(part), maxField-len(e.value))]...)
	if !whole {
		return false
	}
	switch e.field {
	case "event":
		e.kind = e.value
	case "id":
		if !bytes.ContainsRune(e.value, 0) {
			e.id, e.hasID = e.value, true
		}
	case "retry":
		if n, err := strconv.ParseInt(string(e.value), 10, 32); err == nil {
			e.retry = n
		}
	}
	return false
}
