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
//   - Keeper (keeper.go) is what the groups of one program have in common: its children end with it,
//     and what an earlier one left is ended when it is opened.
//   - Launch (launch.go, limit.go, runas.go) is how all children of a keeper are started: as whom, within
//     which limits, through what.
//   - A sandbox (confine.go) is around them where one is configured, and nothing is started without it; a Masker
//     (mask.go) changes secrets in what they print.
//   - RunOwn (own.go) is for commands of the executor itself, which have all that it has.
//   - Environment, Policy and Login (env.go, secrets.go, login.go) decide what a child sees.
//
// # How descendants are found
//
// A process belongs to the tree of a child when it was started after it and at least one of these
// holds:
//
//   - it is in the child's session or process group, or its parent belongs to the tree;
//   - it has the child's label (label.go). Linux only: a resource limit that no system counts is set to
//     a number before the fork, and every descendant inherits it. It survives a cleared environment, a
//     session of its own, closed pipes and the end of the parent. One has to set that limit on purpose to
//     be rid of it; "ulimit -x" shows it as a large number, which limits nothing. A label proves descent, since nothing copies it;
//   - it is in the control group of its group of children (cgroup_linux.go), where a keeper can make
//     one: version 2, in a directory that may be written, such as that of a unit with Delegate=yes. Such a
//     group is also ended at once, so that nothing outruns it. It is for a whole Group, not for one child;
//   - it holds the write end of one of the child's output pipes and has no label of another tree;
//   - it carries the child's marker, the environment variable EXECUTOR_SPAWN_ID. Environments are also
//     copied, into terminal multiplexers and service managers, so this counts only where nothing better
//     is there: without labels; or, where orphans come to the executor, for one that did.
//
// No child of ours and none of its descendants is ever in the session of the executor itself, so what is
// there is never taken for one. Signals go to a process only after its start time was compared, through
// a pidfd where the system has them, so a number that was given to somebody else is never hit.
//
// # When the executor is killed
//
// With a Keeper the system sends SIGKILL to each child at the moment the executor ends, whatever ends
// it (Linux; a program that runs as its file's owner, such as sudo, is excepted). The thread that
// started the child counts as its parent there, so all are started from one that stays. Their
// descendants go on, and are ended by the next Open on the same state directory: those that have a label
// of this instance or are in its control group. Who an instance is stands in the state directory, with
// the file's own inode, so that a copy of the directory is another instance. No process ids are kept,
// and none can be mistaken. What only carries the marker is reported and left alone, and so are the new
// executor itself, its parents and its session: it may have been started by a command of the old one. A
// terminal multiplexer that a command has started is that command's descendant, as are the shells in it,
// whoever uses them: it ends with its session, and after a kill at the next start. One that was there
// before is not.
//
// Without labels (not Linux, or an old or a restricted one) the marker of the instance is the proof, for
// processes whose parent is marked too or is one that orphans go to.
//
// What is left: after a kill, and where there is no control group, a process that has set its limit on
// file locks on purpose, cleared its environment and lost its parent. While the executor lives such a
// one becomes its child, and ends with Keeper.Close.
//
// On Windows there are no trees: only the child itself is ended, and not when the executor is killed.
package spawn
