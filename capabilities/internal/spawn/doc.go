// Package spawn starts child processes, and is the only place that does.
//
//	group := spawn.NewGroup()
//	defer group.Close(2 * time.Second)
//	p, err := group.Start(spawn.Command{
//		Script: "make test",
//		Dir:    "/work",
//		Env:    spawn.Environment(spawn.Login(), spawn.Policy{}, nil),
//		Stdout: func(b []byte) { out.Write(b) },
//	})
//	if err != nil { ... } // a *StartError with the system's words
//	exit := p.Wait()
//
// Its parts:
//
//   - Command (command.go) says what to run; StartError why it could not be.
//   - Group (group.go) owns every process started through it, also what those left running, and ends
//     them all in Close.
//   - Process (process.go) is one child. Wait is about the child itself, never about the end of its
//     pipes: a server left in the background does not keep a command from returning.
//   - The pumps (pump.go) carry output to a Sink in order of arrival. What was printed before the
//     exit is delivered before Wait returns; what descendants print later reaches nobody, unless
//     Command.Follow asks for it.
//   - The tree (tree_unix.go) finds the descendants, including those that left the process group
//     and the session, and ends them.
//   - Environment, Policy and Login (env.go, secrets.go, login.go) decide what a child sees.
//
// # How descendants are found
//
// A process belongs to the tree of a child when it was started after it and at least one of these
// holds: it is in the child's session or process group; it carries the child's marker, the
// environment variable EXECUTOR_SPAWN_ID, which every descendant inherits; it holds the write end of
// one of the child's output pipes; its parent belongs to the tree. One way out remains: a process
// that cleared its environment, left the session, closed its output and whose parent has ended, all
// before anybody looked. Signals go to a process only after its start time was compared, through a
// pidfd where the system has them, so a number that was given to somebody else is never hit.
//
// On Windows there are no trees: only the child itself is ended.
package spawn
