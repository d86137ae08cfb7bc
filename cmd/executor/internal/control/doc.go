// Package control is how a running executor is seen and told from outside: the control socket in its state
// directory, and what is said there.
//
// control.go is the server, to which other parts add their routes; ancestry.go and parent_linux.go tell a command
// that the executor has started, which may look and change nothing, from the user. status.go is what is answered,
// statustext.go what of it people read. The client is cli.Client.
package control
