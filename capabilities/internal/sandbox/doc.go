// Package sandbox confines the commands of an executor to its roots.
//
//	box, err := sandbox.New(sandbox.Policy{Mode: sandbox.Auto, Roots: roots, Hidden: []string{stateDir}})
//	if err != nil { ... }       // it cannot be enforced here: what is missing, and the remedy
//	if err := box.Open(name); err != nil { ... }
//	defer box.Close()
//	go func() {                 // a thread of the system for all starts, and for nothing else
//		runtime.LockOSThread()
//		if err := box.Enter(); err != nil { ... }
//		start := box.Rewrite(start)
//		...
//	}()
//
// There are two ways to enforce it, and no third: what cannot be enforced is an error.
//
//   - landlock (landlock_linux.go, seccomp_linux.go): the thread that starts all commands gives up its rights
//     for good, and what it starts has no more than it has. Nothing stands between the executor and its
//     commands: their process ids, signals, exit codes and terminals are what they are without. All commands
//     are in one domain, so that one can end what another has left running.
//   - bubblewrap (bwrap_linux.go): each command is started by bwrap with a file system of its own, in
//     which there is only what it may see. The thread gives up the right to signal others.
//
// Both have the same places (places.go): the roots are writable, the directories of the system can be read, and so
// can a list of tool directories in the home directory; all else is not there. Commands get a home
// directory and a directory for temporary files of their own (private.go), which live as long as the executor.
package sandbox
