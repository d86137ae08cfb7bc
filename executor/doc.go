// Package executor is the agent: the hands of a brain on this machine. It dials out,
// registers what it can do, keeps its lease alive, takes sessions and tool calls,
// and delivers every result it owes. The smallest use:
//
//	ex, err := executor.New(executor.Options{URL: "wss://brain.example/executor", Token: token})
//	ex.Register(capabilities.Func("greet", "Say hi.", greet))
//	err = ex.Run(ctx) // until ctx is done, or the brain refuses for good
//
// Three lifetimes lie in each other, and one beside them:
//
//	executor ─ Run ────────────────────────────────────────────────▶
//	  session ─ assign ──────────────────────────── stop, end ──▶
//	    call ─ tool.call ──── result recorded ──▶
//	  connection ─ dial ─ lost ─▶   connection ─ dial ──────────▶
//
// With a state directory a session outlives the process too: one that was killed and
// starts again prepares its sessions anew and goes on with them.
//
// Nothing of a session or a call knows whether a connection exists. A call's result
// goes into the outbox; the delivery loop of whatever connection there is takes it
// from there.
//
//	thing       created by      lives until                ended by
//	Executor    New             Run returns                Run's ctx, Drain, a refusal
//	outbox      New             Run returns                Run
//	state       New             Run returns                Run, which writes it a last time
//	connection  connect         lost, or Run ends          serve, which waits for its loops
//	session     session.assign, stop, lost lease, Run ends session.end: cancel, wait, hooks
//	            restore
//	call        tool.call       its handler returns        its context: cancel, deadline, session
//
// Beside results there is what has to arrive all the same, such as the end of a process:
// what a capability tells goes into the notices, and over each connection again until
// the brain is known to have read it. What a capability notes of a session goes into the
// journal, beside the calls, and is there again after a restart.
//
// A drain waits for calls and for whatever else a capability has said is at work for a
// session (capabilities.Session.Working), as processes are.
//
// What runs can be changed and looked at: Reconfigure changes roots, limits and the drain timeout for what begins from
// then on; Options.TLSSource gives the TLS of each dial anew, so that certificates can be renewed; Options.OnCall is
// told of each call that has ended, for measuring. Status says how it stands, and in Status.Overdue for how long its
// loop has been stuck, which is 0 whether or not the brain can be reached. Options.Woken tells it that the machine has
// slept; who has no such news is looked after by a clock. A stream of package redact is what
// standard.Launch.Mask takes, so that commands print no secret either.
//
// A call is recorded before it runs, and a result before it is sent. Recorded is written, which survives the end of the
// process; the disk has it a moment later. When the machine goes down before, no session comes back: no call runs twice.
//
// Before anything is accepted that a session wants done, the gate is asked (Options.Decide, decide.go): every
// tool's call, and every method that starts or changes something. Package gate has the types, trust a gate made of
// packages policy, approval and audit; nothing else here knows of them.
//
// One noun or one loop has one file: connect.go (the loop that dials), door.go (the
// socket at which the brain dials instead), connection.go (one registered connection),
// heartbeat.go, deliver.go, announce.go, renew.go (their loops), token.go (the
// credential there is), exchange.go (where it can come from), lease.go, wake.go (that
// the machine was suspended), load.go, session.go with sessions.go (the table of them),
// fences.go and status.go, notices.go (what has to be told), memory.go (what was noted),
// state.go and restore.go (what is kept over a restart, and what comes back), journal.go (what is made of the outbox's files, and of a full disk),
// lock.go, call.go, decide.go, result.go, toolarge.go, dispatch.go (who answers which method),
// peer.go (the brain as capabilities see it), shutdown.go, errors.go.
package executor
