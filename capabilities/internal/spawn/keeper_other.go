//go:build !linux

package spawn

import "syscall"

// diesWithParent says whether the system can end a child with the thread that started it.
const diesWithParent = false

func dieWithParent(*syscall.SysProcAttr) {}

func adopt() (restore func(), ok bool) { return func() {}, false }

func Adopts() bool { return false }

func now() uint64 { return 0 }

func onFirstThread() bool { return false }
