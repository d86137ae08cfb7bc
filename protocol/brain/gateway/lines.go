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
	lastWait = 2 * time.Second
)

// Lines is the transport of MCP over standard input and output, or over anything else
// that carries bytes: one message in each line. Unlike the library's, a line that is no
// message does not end the session; it is answered with an error. Both ends are closed
// with the session when they can be (io.Closer); a Read that Close does not end, as that
// of a terminal, is left behind. It is for one session.
func Lines(r io.Reader, w io.Writer) mcp.Transport { return &lines{r: r, w: w} }

type lines struct {
	r io.Reader
	w io.Writer
}

func (t *lines) Connect(context.Context) (mcp.Connection, error) {
	c := &lineConn{r: t.r, w: t.w, in: make(chan line), closed: make(chan struct{}), idle: make(chan struct{}, 1)}
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

	writing sync.Mutex

	mu    sync.Mutex
	owed  map[jsonrpc.ID]struct{} // requests without an answer
	ended bool                    // of the input
	idle  chan struct{}           // told when owed becomes empty after the end
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
			if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("read from the client: %w", err)
			}
			c.waitOwed()
			c.put(line{err: err})
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

// waitOwed waits a little until all requests are answered.
func (c *lineConn) waitOwed() {
	c.mu.Lock()
	c.ended = true
	none := len(c.owed) == 0
	c.mu.Unlock()
	if none {
		return
	}
	timer := time.NewTimer(lastWait)
	defer timer.Stop()
	select {
	case <-c.idle:
	case <-timer.C:
	case <-c.closed:
	}
}

// decode is nil for what is no message, which it answers.
func (c *lineConn) decode(raw []byte) jsonrpc.Message {
	msg, err := jsonrpc.DecodeMessage(raw)
	if err == nil {
		if r, ok := msg.(*jsonrpc.Request); ok && r.IsCall() {
			c.mu.Lock()
			if c.owed == nil {
				c.owed = map[jsonrpc.ID]struct{}{}
			}
			c.owed[r.ID] = struct{}{}
			c.mu.Unlock()
		}
		return msg
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

// complain answers what had no id that could be read.
func (c *lineConn) complain(code int64, text string) {
	text = strings.ToValidUTF8(text[:min(len(text), 300)], "") // it may have the line in it
	_ = c.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`, code, quote(text)))
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

// Write implements mcp.Connection. It waits for a client that does not read.
func (c *lineConn) Write(_ context.Context, msg jsonrpc.Message) error {
	raw, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	err = c.write(raw)
	if r, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.owed, r.ID)
		if c.ended && len(c.owed) == 0 {
			select {
			case c.idle <- struct{}{}:
			default:
			}
		}
		c.mu.Unlock()
	}
	return err
}

func (c *lineConn) write(raw []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	select {
	case <-c.closed:
		return io.ErrClosedPipe
	default:
	}
	_, err := c.w.Write(append(raw, '\n'))
	return err
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
