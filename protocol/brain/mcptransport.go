package brain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// MCP is a server of a session as a transport for an MCP client:
//
//	client := mcp.NewClient(&mcp.Implementation{Name: "me", Version: "1"}, nil)
//	server, err := client.Connect(ctx, session.MCP("files"), nil)
//	result, err := server.CallTool(ctx, &mcp.CallToolParams{Name: "read", Arguments: args})
//
// The client's session survives lost connections of the executor: what is under way
// arrives later, once. It ends when the server exits, when it is closed, which ends that
// run of the server, or when the Session ends. After that a new Connect talks to the
// next run of the server (spec sections 8, 14.9).
type MCP struct {
	s   *Session
	key string
}

var _ mcp.Transport = (*MCP)(nil)

// MCP is the transport to the server of that server_key. It may be connected again after
// its last client was closed; one client at a time.
func (s *Session) MCP(serverKey string) *MCP { return &MCP{s: s, key: serverKey} }

// Connect waits until the executor has dialled the server's channel. The error is
// mcp_unavailable when the server has failed, not_found when the session has none of that
// key, conflict while another client has it, the session's own when that has ended.
func (m *MCP) Connect(ctx context.Context) (mcp.Connection, error) {
	select {
	case <-m.s.settled:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	run, err := m.s.servers.claim(ctx, m.key, m.s.MCPServers())
	if err != nil {
		return nil, err
	}
	return &mcpConnection{of: &m.s.servers, run: run}, nil
}

// mcpConnection is a client's end of a channel.
type mcpConnection struct {
	of  *mcpServers
	run *mcpServer

	reading sync.Mutex
	more    []json.RawMessage // of a batch, which older servers send
}

func (c *mcpConnection) SessionID() string { return "" }

// Read returns the next message. Of what is none, an answer is an error for who waits for
// it, and the rest is left out.
func (c *mcpConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		if len(c.more) == 0 {
			frame, err := c.run.ch.ReadFrame(ctx)
			if err != nil {
				return nil, readEnd(err)
			}
			c.more = append(c.more, frame)
			if b := bytes.TrimSpace(frame); len(b) > 0 && b[0] == '[' {
				c.more = nil
				_ = json.Unmarshal(b, &c.more)
				continue
			}
		}
		one := c.more[0]
		c.more = c.more[1:]
		message, err := jsonrpc.DecodeMessage(one)
		if err == nil {
			return message, nil
		}
		if refusal := malformed(one); refusal != nil {
			return refusal, nil
		}
	}
}

// malformed is an error in the place of an answer that is none; nil for anything else.
func malformed(raw []byte) jsonrpc.Message {
	var of struct {
		ID     any             `json:"id"`
		Method json.RawMessage `json:"method"`
	}
	if json.Unmarshal(raw, &of) != nil || of.ID == nil || of.Method != nil {
		return nil
	}
	id, err := jsonrpc.MakeID(of.ID)
	if err != nil {
		return nil
	}
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: int64(protocol.CodeMCPUnavailable), Message: "the server's answer is malformed"}}
}

// readEnd is io.EOF after an orderly end.
func readEnd(err error) error {
	var closed *rpc.CloseError
	if errors.Is(err, io.ErrClosedPipe) || errors.As(err, &closed) && closed.Code == protocol.CloseNormal {
		return io.EOF
	}
	return err
}

// Write sends a message. One that is too large costs only itself: an error here would be
// the end of the client's session.
func (c *mcpConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	frame, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	err = c.run.ch.WriteFrame(ctx, frame)
	if !errors.Is(err, protocol.ErrPayloadTooLarge) {
		return err
	}
	refusal := &jsonrpc.Error{Code: int64(protocol.CodePayloadTooLarge), Message: err.Error()}
	switch m := m.(type) {
	case *jsonrpc.Request:
		if !m.IsCall() {
			return nil
		}
		if frame, err = jsonrpc.EncodeMessage(&jsonrpc.Response{ID: m.ID, Error: refusal}); err == nil {
			c.run.ch.Insert(frame)
		}
		return err
	case *jsonrpc.Response:
		if frame, err = jsonrpc.EncodeMessage(&jsonrpc.Response{ID: m.ID, Error: refusal}); err == nil {
			err = c.run.ch.WriteFrame(ctx, frame)
		}
	}
	return err
}

// Close is the end of this run of the server.
func (c *mcpConnection) Close() error {
	c.of.release(c.run)
	return nil
}
