package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxNoted is how many lines that are no good messages are logged in one run of a server, and maxShown how
	// much of each.
	maxNoted = 5
	maxShown = 120
)

// relay passes what a server says on to the brain, byte for byte. The one change it makes: a message that is
// too long becomes an error for who waits for it (spec section 14.9). It may be used concurrently.
type relay struct {
	ch    capabilities.Channel
	log   *zap.Logger
	hide  secrets
	limit int
	// answer passes an error on to the server, without waiting for it.
	answer func(frame []byte)

	strange atomic.Int64 // lines that were no messages
}

// limitOf is the longest message of a channel.
func limitOf(ch capabilities.Channel) int {
	if l, ok := ch.(interface{ Limit() int }); ok && l.Limit() > 0 {
		return l.Limit()
	}
	return protocol.DefaultMaxMCPFrame
}

// deliver passes one message on. The error is the end of the channel, or ctx's.
func (r *relay) deliver(ctx context.Context, m *message) error {
	if m.tooLarge() {
		return r.refuse(ctx, m)
	}
	if !json.Valid(m.text) {
		r.note("a line of the server is no JSON and is dropped", m.text)
		return nil
	}
	if m.text[0] == '[' { // a batch, which some servers still send
		return r.deliverEach(ctx, m.text)
	}
	if m.envelope.write(m.text); !m.known() {
		r.note("a line of the server is no message and is dropped", m.text)
		return nil
	}
	if !utf8.Valid(m.text) { // which a text message may not have in it: its receiver would end the connection
		r.note("a message of the server is not UTF-8; what is none is replaced", m.text)
		m.text = bytes.ToValidUTF8(m.text, []byte("\uFFFD"))
	}
	err := r.ch.WriteFrame(ctx, m.text)
	if tooLarge := new(protocol.Error); errors.As(err, &tooLarge) && tooLarge.Code == protocol.CodePayloadTooLarge {
		return r.refuse(ctx, m) // the brain takes less than we do
	}
	return err
}

func (r *relay) deliverEach(ctx context.Context, batch []byte) error {
	var all []json.RawMessage
	if json.Unmarshal(batch, &all) != nil {
		return nil // it is valid, so this cannot be
	}
	for _, one := range all {
		if bytes.HasPrefix(one, []byte("[")) {
			continue
		}
		if err := r.deliver(ctx, &message{limit: r.limit, text: one, size: int64(len(one))}); err != nil {
			return err
		}
	}
	return nil
}

// refuse tells who waits for a message that it is too long.
func (r *relay) refuse(ctx context.Context, m *message) error {
	text := fmt.Sprintf("the message of %d bytes is over the limit of an MCP channel", m.size)
	switch {
	case m.response():
		r.log.Warn("a response of the server is too large, the brain gets an error instead", zap.Int64("bytes", m.size))
		return r.ch.WriteFrame(ctx, errorFrame(m.id, protocol.CodePayloadTooLarge, text))
	case m.request():
		r.log.Warn("a request of the server is too large and is refused", zap.Int64("bytes", m.size))
		r.answer(errorFrame(m.id, protocol.CodePayloadTooLarge, text))
	default:
		r.log.Warn("a message of the server is too large and is dropped", zap.Int64("bytes", m.size), zap.Bool("notification", m.method))
	}
	return nil
}

// note logs the first lines that are no messages: a server that prints something else there is a common
// mistake, and hard to find without them.
func (r *relay) note(what string, text []byte) {
	if n := r.strange.Add(1); n <= maxNoted {
		shown := r.hide.mask(text)
		shown = bytes.ToValidUTF8(shown[:min(len(shown), maxShown)], []byte("\uFFFD"))
		r.log.Warn(what, zap.Int("bytes", len(text)), zap.ByteString("begins", shown))
	}
}

// summary logs how many there were in all.
func (r *relay) summary() {
	if n := r.strange.Load(); n > maxNoted {
		r.log.Warn("the server has printed more lines that are no messages", zap.Int64("lines", n))
	}
}

// errorFrame is a response with an error. It has the code and the reason of the protocol.
func errorFrame(id []byte, code protocol.Code, text string) []byte {
	if id == nil {
		id = []byte("null")
	}
	frame, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, struct {
		Code    protocol.Code  `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	}{code, text, map[string]any{"reason": code.String()}}})
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`) // the id is JSON, so this cannot be
	}
	return frame
}
