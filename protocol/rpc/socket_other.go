//go:build !unix

package rpc

import "syscall"

// canWriteNow: there is no write that does not wait, and no such read.
const (
	canWriteNow = false
	canReadNow  = false
)

func write(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EWINDOWS }

func readNow(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EWINDOWS }

func setLowWater(uintptr, int) {}
