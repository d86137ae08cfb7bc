//go:build !linux

package spawn

import "os"

// outputPipe is a pipe whose writing end is a child's.
func outputPipe() (r, w *os.File, err error) { return os.Pipe() }

// nullDevice opens it for a child.
func nullDevice() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_RDWR, 0) }
