// Package rpc carries the protocol: one Conn for both ends, over a WebSocket (TCP,
// TLS or a Unix socket) or a pipe in memory. The smallest use, at either end:
//
//	mux := rpc.NewMux(0)
//	rpc.Handle(mux, protocol.ToolCall, h.toolCall)
//	frames, err := rpc.Dial(ctx, "wss://brain.example/executor", rpc.DialOptions{Token: token})
//	conn := rpc.NewConn(frames, mux, nil)
//	conn.Start()
//	defer conn.Close()
//	result, err := rpc.Call(ctx, conn, protocol.ExecutorRegister, params)
//
// Its parts: conn.go is a connection's life, call.go what it sends; envelope.go reads
// and writes the JSON-RPC 2.0 envelope, on the message types of sourcegraph/jsonrpc2;
// read.go is the read loop, which passes requests to the handlers in mux.go, on
// workers.go or, when they come alone, by itself, and takeover.go what happens when
// such a handler holds it up; write.go is the queue of frames going out, small ones
// first. The WebSocket transport is websocket.go with dial.go, accept.go, unix.go and
// listen.go (a Unix socket, dialled from either end), output.go and frame.go for what
// goes out and socket.go for what comes in; pipe.go is the transport in memory. rpctest has an in-memory network and faults for tests.
//
// What it promises: a malformed frame is answered and ends nothing; a handler that
// panics or blocks harms only its own request; requests of one lane run in order of
// arrival, all others at once, up to a limit beyond which they are refused; a peer
// that stops reading or answering is noticed and bounds what waits for it; Close
// returns when everything has ended.
package rpc
