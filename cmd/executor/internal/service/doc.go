// Package service is the executor under a service manager: the units of systemd, the command that installs them, and
// what a running executor tells the manager.
//
// unit.go makes the units; those that packages have are beside it, made from it by its tests. service.go and status.go
// are executor service, systemd.go is what they ask of this machine. notify.go is the manager's protocol, and
// supervise.go what is told by it, and when.
package service
