// Package protocol is what is on the wire between an executor (the hands: a
// process on some machine) and a brain (the control plane that decides what is
// done): the methods with their params and results, the capabilities object,
// the errors, the close codes, the limits and the defaults. It is data: it
// imports the standard library only, starts no goroutine and does no I/O. All
// its values may be used concurrently as long as nobody writes to them.
//
// The smallest use is to name a method and its types together:
//
//	result, err := rpc.Call(ctx, conn, protocol.ExecutorHeartbeat,
//		protocol.HeartbeatParams{ConnectionID: id})
//
// The life of a connection, the executor on the left:
//
//	dial, upgrade (bearer token)  ──────────▶  authenticate
//	executor.register             ──────────▶
//	                              ◀──────────  connection_id, lease, limits
//	executor.heartbeat            ──────────▶  (every 10 s, renews the lease)
//	                              ◀──────────  session.assign
//	session.ready                 ──────────▶
//	                              ◀──────────  tool.call   (answered at once)
//	tool.result                   ──────────▶  (stored, then acknowledged)
//	   ~ connection lost, dialled again, register with resume ~
//	tool.result, still owed       ──────────▶
//	                              ◀──────────  session.stop
//	session.ended                 ──────────▶
//	                              ◀──────────  executor.drain
//	executor.close, close 1001    ──────────▶
//
// One family of methods has one file: executor.go, session.go, tool.go,
// process.go, terminal.go, mcp.go, agent.go, workspace.go, skill.go, mount.go.
// PROTOCOL.md is the contract for implementers in other languages; the golden
// messages in testdata/wire at the top of the repository belong to it.
//
// What a version may change: within version 1, optional members and whole
// methods marked as extensions may be added; a peer ignores members it does not
// know. Anything else needs a new subprotocol name.
package protocol
