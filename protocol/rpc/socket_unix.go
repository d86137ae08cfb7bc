//go:build unix

package rpc

// canWriteNow: there is a write that does not wait.
const canWriteNow = true
