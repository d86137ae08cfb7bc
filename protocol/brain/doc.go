// Package brain is the other end of the protocol: it accepts executors, gives them
// sessions and has tools called in these. The smallest use:
//
//	b := brain.New(brain.Options{Authenticate: checkToken})
//	defer b.Close("going away")
//	go http.ListenAndServe("127.0.0.1:8080", b)
//
//	x, err := b.WaitExecutor(ctx)
//	s, err := x.Assign(ctx, protocol.SessionAssignParams{})
//	result, err := s.Call(ctx, "bash", map[string]any{"command": "uname -a"})
//	err = s.Stop(ctx, "done")
//
// Its parts: brain.go is the Brain, its executors and its end; serve.go takes
// connections, connection.go is the life of one, with its lease; handlers.go
// answers what executors send; executor.go, session.go and call.go are what a
// brain does with them, process.go a process on an executor, request.go how it asks until it is answered; results.go keeps
// results; repeat.go asks again
// for calls that were accepted on a connection that is gone; changes.go and follow.go tell those who
// want to know of executors that come and go, and of what one call says; issuer.go gives tokens
// that end for keys that stay; mcp.go has the channels of a session's MCP servers, and
// mcptransport.go makes transports of them. It works in the same way in tests, over rpc.Pipe and
// ServeFrames, as behind an HTTP server.
//
// What it promises: a call, an assignment or a stop outlives the connection it was
// begun on, is repeated under its own id until it is answered, and ends when its
// context, its session or the Brain does. An executor that never learnt the id it was
// given is forgotten: callers get ErrForgotten and look it up again. A result is acknowledged after Results
// has it, and handed to one waiter once. Nothing is kept of a session that has
// ended, except what Results keeps.
package brain
