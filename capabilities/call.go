package capabilities

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/agent-executor/executor/protocol"
)

// Uploader sends a file to the brain and returns what it is known by from then
// on. It reads r to its end or fails.
type Uploader func(ctx context.Context, call *Call, name, mimeType string, r io.Reader) (protocol.Artifact, error)

// CallConfig is what a host makes a call of. Session, ID and Tool are required.
type CallConfig struct {
	Session *Session
	ID      string // tool_call_id: any string of the brain's
	Tool    *RegisteredTool
	Input   json.RawMessage // as it came; nil = {}
	Upload  Uploader        // nil: the brain takes no artifacts
}

// Call is one run of a tool. Its methods may be called concurrently, by the
// handler and what the handler waits for; after the handler has returned they do
// nothing or fail. The host ends it with Close.
type Call struct {
	config CallConfig

	// quietUntil is when progress is tried again after the connection did not take
	// it, in nanoseconds since started.
	quietUntil atomic.Int64
	started    time.Time

	mu     sync.Mutex
	closed bool
	spill  *spillFile // nil before the first Spill
}

// NewCall makes a call. It starts nothing and opens nothing.
func NewCall(c CallConfig) *Call {
	if len(c.Input) == 0 || string(c.Input) == "null" {
		c.Input = json.RawMessage("{}")
	}
	return &Call{config: c, started: time.Now()}
}

// ID is the tool_call_id, any string.
func (c *Call) ID() string { return c.config.ID }

// Session is the session the call belongs to.
func (c *Call) Session() *Session { return c.config.Session }

// Tool is the tool that is called.
func (c *Call) Tool() *RegisteredTool { return c.config.Tool }

// Input is the input as it came, an object. It is not to be written to.
func (c *Call) Input() json.RawMessage { return c.config.Input }

const (
	// progressWait is how long one piece of progress may hold up the tool, and
	// progressPause how long the next ones are dropped after one was not taken, so
	// that a stalled connection costs a tool a tenth of its time at most.
	progressWait  = 100 * time.Millisecond
	progressPause = time.Second
	// maxProgressMessage and maxProgressData are bytes in one notification.
	maxProgressMessage = 4 << 10
	maxProgressData    = 32 << 10
)

// Progress tells the brain how far the call is. It is best effort: without a
// connection, or behind a slow one, the message is dropped. At most 4 KiB of msg
// are sent.
func (c *Call) Progress(msg string) {
	if msg = cleanText(msg, maxProgressMessage); msg != "" {
		c.progress(protocol.ToolProgressParams{Message: msg})
	}
}

// Output sends output of the call while it runs; stream is protocol.StreamStdout
// or StreamStderr. Best effort like Progress; the result must not depend on it.
// data is not kept.
func (c *Call) Output(stream string, data []byte) {
	for len(data) > 0 {
		n := min(len(data), maxProgressData)
		if !c.progress(protocol.ToolProgressParams{Stream: stream, Data: data[:n]}) {
			return
		}
		data = data[n:]
	}
}

func (c *Call) progress(p protocol.ToolProgressParams) bool {
	if int64(time.Since(c.started)) < c.quietUntil.Load() || c.isClosed() {
		return false
	}
	p.SessionID, p.ToolCallID = c.Session().ID(), c.ID()
	ctx, cancel := context.WithTimeout(c.Session().Context(), progressWait)
	defer cancel()
	if err := Notify(ctx, c.Session(), protocol.ToolProgress, p); err != nil {
		c.quietUntil.Store(int64(time.Since(c.started) + progressPause))
		return false
	}
	return true
}

// Artifact sends a file to the brain, for ToolOutput.Artifacts or a content block.
// The error is capability_unavailable when the brain takes no artifacts.
func (c *Call) Artifact(ctx context.Context, name, mimeType string, r io.Reader) (protocol.Artifact, error) {
	if c.config.Upload == nil {
		return protocol.Artifact{}, protocol.Errorf(protocol.CodeCapabilityUnavailable,
			"artifacts cannot be uploaded here").WithCapability("artifacts.upload")
	}
	if c.isClosed() {
		return protocol.Artifact{}, errCallEnded
	}
	return c.config.Upload(ctx, c, name, mimeType, r)
}

// Spill returns the file for the full text of a result that is too long to be
// sent, and its path as it is told to the model. The file is made by the first
// call, in the directory .executor/spill of the session's workspace, open for
// reading and writing; every call returns the same one. It belongs to the Call:
// the caller writes to it and does not close it. It stays until the session ends.
//
// Two writers at once must agree among themselves who writes where. The error is
// a *protocol.Error: no workspace, a read-only one, a full disk.
func (c *Call) Spill() (f *os.File, displayPath string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, "", errCallEnded
	}
	if c.spill == nil {
		s, err := openSpill(c.config.Session.Workspace(), c.ID())
		if err != nil {
			return nil, "", err
		}
		c.spill = s
		session := c.config.Session
		session.mu.Lock()
		session.spills = append(session.spills, path.Base(s.display))
		session.mu.Unlock()
	}
	return c.spill.file, c.spill.display, nil
}

var errCallEnded = protocol.Errorf(protocol.CodeCanceled, "the call has ended")

func (c *Call) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close ends the call, after its handler has returned: it closes the spill file
// and stops progress. The error is that of the file. It may be called twice.
func (c *Call) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.spill == nil {
		return nil
	}
	return c.spill.file.Close()
}

// cleanText makes text that a peer may get: valid UTF-8 without U+0000, at most
// limit bytes.
func cleanText(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for range utf8.UTFMax - 1 { // do not cut a character in two
			if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}
