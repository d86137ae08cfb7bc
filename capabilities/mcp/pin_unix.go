//go:build unix

package mcp

import (
	"os"

	"golang.org/x/sys/unix"
)

// openProgram opens a file to be read, without waiting for the other end of a FIFO.
func openProgram(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}
