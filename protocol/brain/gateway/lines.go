package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// MaxLineBytes is the longest message that Lines takes; a longer one is answered with
	// an error and skipped.
	MaxLineBytes = 16 << 20

	// lastWait is how long, after the end of the input, answers are waited for that are
	// under way: a script may close its end as soon as it has asked.
	lastWait = 10 * time.Second
	// lastLook is how often it is looked meanwhile whether the client still reads.
	lastLook = 500 * time.Millisecond
	// stuckAfter is how long a write may take at the end before the client counts as one
	// that does not read.
	stuckAfter = 2 * time.Second
)

// Lines is the transport of MCP over standard input and output, or over anything else
// that carries bytes: one message in each line. Unlike the library's, a line that is no
// message does not end the session; it is answered with an error. Both ends are closed
// with the session when they can be (io.Closer); a Read or a Write that Close does not
// end, as that of a terminal or of a pipe that nobody reads, is left behind. It is for one
// session. After the end of the input, answers that are under way are waited for, for
// 10 seconds at most and not when the client does not read them, or is gone: w may have a
// method Gone() bool to know that before a Write does. After any other error than io.EOF
// nothing is waited for.
func Lines(r io.Reader, w io.Writer) mcp.Transport { return &lines{r: r, w: w} }

type lines struct {
	r io.Reader
	w io.Writer
}

func (t *lines) Connect(context.Context) (mcp.Connection, error) {
	c := &lineConn{r: t.r, w: t.w, in: make(chan line), closed: make(chan struct{}),
		writing: make(chan struct{}, 1), owed: map[jsonrpc.ID]bool{}, idle: make(chan struct{}, 1)}
	go c.read()
	return c, nil
}

type line struct {
	msg jsonrpc.Message
	err error
}

type lineConn struct {
	r      io.Reader
	w      io.Writer
	in     chan line
	once   sync.Once
	closed chan struct{}

	writing chan struct{} // has one in it during a write

	mu      sync.Mutex
	began   time.Time           // of the write; zero: there is none
	owed    map[jsonrpc.ID]bool // requests without an answer; true: cancelled, it gets none
	answers int                 // being written
	ended   bool                // of the input
	idle    chan struct{}       // told when nothing is owed any more after the end
}

func (c *lineConn) SessionID() string { return "" }

// read reads lines until the end of the input. It is a goroutine of its own because a
// Read of standard input cannot be ended.
func (c *lineConn) read() {
	br := bufio.NewReaderSize(c.r, 64<<10)
	for {
		raw, tooLong, err := readLine(br, MaxLineBytes)
		var next line
		switch {
		case tooLong:
			c.complain(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has more than %d bytes", MaxLineBytes))
		case len(bytes.TrimSpace(raw)) > 0:
			if next.msg = c.decode(raw); next.msg != nil && !c.put(next) {
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				c.waitOwed()
				c.put(line{err: err})
				c.waitClosed()
				return
			}
			// Broken off, not ended: nobody waits for an answer.
			c.put(line{err: fmt.Errorf("read from the client: %w", err)})
			_ = c.Close()
			return
		}
	}
}

func (c *lineConn) put(l line) bool {
	select {
	case c.in <- l:
		return true
	case <-c.closed:
		return false
	}
}

// waitOwed waits until all requests are answered, but not for long, nor for a client that
// does not read.
func (c *lineConn) waitOwed() {
	limit := time.NewTimer(lastWait)
	defer limit.Stop()
	look := time.NewTicker(lastLook)
	defer look.Stop()
	c.mu.Lock()
	c.ended = true
	none := c.nothingOwed()
	c.mu.Unlock()
	out, _ := c.w.(interface{ Gone() bool })
	for !none && !c.stuck() && (out == nil || !out.Gone()) {
		select {
		case <-c.idle:
			return
		case <-look.C:
		case <-limit.C:
			return
		case <-c.closed:
			return
		}
	}
}

// waitClosed closes the connection unless the session does so soon: it waits for writes.
func (c *lineConn) waitClosed() {
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	select {
	case <-c.closed:
	case <-timer.C:
		_ = c.Close()
	}
}

// nothingOwed is called with mu held.
func (c *lineConn) nothingOwed() bool {
	for _, cancelled := range c.owed {
		if !cancelled {
			return false
		}
	}
	return c.answers == 0
}

// stuck says whether the client does not read.
func (c *lineConn) stuck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.began.IsZero() && time.Since(c.began) >= stuckAfter
}

// decode is nil for what is no message, which it answers.
func (c *lineConn) decode(raw []byte) jsonrpc.Message {
	msg, err := jsonrpc.DecodeMessage(raw)
	if err == nil {
		return c.admit(msg, raw)
	}
	code, text := int64(jsonrpc.CodeInvalidRequest), "not a JSON-RPC message: "
	switch trimmed := bytes.TrimSpace(raw); {
	case !validJSON(trimmed):
		code, text = jsonrpc.CodeParseError, "a line is not JSON: "
	case trimmed[0] == '[':
		text = "batches are not taken; send one message in each line: "
	}
	c.complain(code, text+err.Error())
	return nil
}

// admit looks at the ids in a message; nil for what is not to be handled. A request whose
// id is in use is refused without an id: with it, the refusal would be taken for the
// answer to the first.
func (c *lineConn) admit(msg jsonrpc.Message, raw []byte) jsonrpc.Message {
	cancelled, err := identify(msg, raw)
	r, request := msg.(*jsonrpc.Request)
	if err != nil {
		if !request || r.IsCall() || r.Method != methodCancelled {
			c.complain(jsonrpc.CodeInvalidRequest, "not a JSON-RPC message: "+err.Error())
		}
		return nil
	}
	if !request {
		return msg
	}
	c.mu.Lock()
	_, used := c.owed[r.ID]
	switch {
	case r.IsCall() && !used:
		c.owed[r.ID] = false
	case !r.IsCall() && cancelled.IsValid():
		if _, running := c.owed[cancelled]; running {
			c.owed[cancelled] = true
		}
	}
	c.mu.Unlock()
	if r.IsCall() && used {
		c.complain(jsonrpc.CodeInvalidRequest, fmt.Sprintf("the id of a request (%s) is that of another that has no answer yet; it is not done", r.Method))
		return nil
	}
	return msg
}

// complain answers what had no id that could be read. It does not wait for a client that
// does not read: the end of the input would not be seen.
func (c *lineConn) complain(code int64, text string) {
	if c.stuck() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stuckAfter)
	defer cancel()
	text = strings.ToValidUTF8(text[:min(len(text), 300)], "") // it may have the line in it
	_ = c.write(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`, code, quote(text)))
}

// Read implements mcp.Connection.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case l := <-c.in:
		return l.msg, l.err
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection. It waits for a client that does not read, until ctx is
// done or the connection closed. A request that was cancelled gets no answer.
func (c *lineConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	r, answer := msg.(*jsonrpc.Response)
	if answer {
		// Before the write: who has read the answer may use the id again.
		c.mu.Lock()
		cancelled := c.owed[r.ID]
		delete(c.owed, r.ID)
		c.answers++
		c.mu.Unlock()
		defer c.answered()
		if cancelled {
			return nil
		}
	}
	raw, err := encode(msg)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return c.write(ctx, raw)
}

func (c *lineConn) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers--; c.ended && c.nothingOwed() {
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
}

// write writes a line. One that is not taken in time is left to a goroutine, since no Write
// to a pipe can be ended; nothing else is written before it is.
func (c *lineConn) write(ctx context.Context, raw []byte) error {
	select {
	case c.writing <- struct{}{}:
	case <-c.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.closed:
		<-c.writing
		return io.ErrClosedPipe
	default:
	}
	c.mu.Lock()
	c.began = time.Now()
	c.mu.Unlock()
	wrote := make(chan error, 1)
	go func() {
		_, err := c.w.Write(append(raw, '\n'))
		c.mu.Lock()
		c.began = time.Time{}
		c.mu.Unlock()
		<-c.writing
		wrote <- err
	}()
	select {
	case err := <-wrote:
		if err != nil {
			_ = c.Close() // there is nobody to answer
		}
		return err
	case <-c.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements mcp.Connection.
func (c *lineConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		for _, end := range []any{c.r, c.w} {
			if e, ok := end.(io.Closer); ok {
				_ = e.Close()
			}
		}
	})
	return nil
}
