//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"runtime"
)

type none struct{}

func backendOf(string) backend { return none{} }

func (none) check(*Sandbox) error {
	return errors.New("there is no sandbox for " + runtime.GOOS + "/" + runtime.GOARCH + "; start commands through a program with --launch-prefix, or run the executor in a container or a virtual machine")
}
func (none) enter(*Sandbox) error                           { return errors.ErrUnsupported }
func (none) rewrite(_ *Sandbox, start Start) (Start, error) { return start, errors.ErrUnsupported }
func (none) words(*Sandbox) []string                        { return nil }

func keepPrivate() error { return errors.ErrUnsupported }

type filterProgram struct{}
