// Package rpctest has a network in memory and faults for tests of either end of
// the protocol. Everything in it works inside a testing/synctest bubble.
//
//	l := rpctest.Listen()
//	go http.Serve(l, b) // b is a brain, or any handler that calls rpc.Accept
//	faults := rpctest.NewFaults(rpctest.Rule{Method: "tool.result", Answer: true, Do: rpctest.Drop})
//	frames, err := faults.Dial(ctx, "ws://brain/", l.DialOptions())
//
// listener.go is a net.Listener with connections that have a buffer, deadlines,
// and can be cut or stalled below the WebSocket, where keep-alive notices it;
// faults.go does the same, and more, to single messages, chosen by method.
package rpctest
