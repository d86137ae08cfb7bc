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
// Its parts: envelope.go and scan.go read and write the JSON-RPC 2.0 envelope, on
// the message types of sourcegraph/jsonrpc2; read.go is the read loop, which
// dispatches to the Mux and never runs a handler itself; write.go is the queue of
// frames going out, small ones first; websocket.go, socket.go, dial.go, accept.go
// and unix.go are the WebSocket transport, pipe.go the one in memory. rpctest has an
// in-memory listener and faults for tests.
//
// What it promises: a malformed frame is answered and ends nothing; a handler that
// panics or blocks harms only its own request; requests of one lane run in order of
// arrival, all others at once, up to a limit beyond which they are refused; a peer
// that stops reading or answering is noticed and bounds what waits for it; Close
// returns when everything has ended.
package rpc
