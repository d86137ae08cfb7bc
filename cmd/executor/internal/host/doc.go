// Package host is what the executor asks of the machine it runs on: how commands are started there, the memory that
// it holds, and to be told that the machine was asleep.
//
//	err := host.ConfigureChildren(children, settings, mask)
//	err = host.OpenChildren(children, stateDir, log)
//	defer host.CloseChildren(children, log)
//	go host.RestMemory(ctx)
//
// launch.go and children.go are the children, memory.go and program_linux.go the memory, woken_linux.go the sleep.
package host
