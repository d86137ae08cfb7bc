//go:build linux && (amd64 || arm64)

package sandbox

import "errors"

type bubblewrap struct{}

func (bubblewrap) check(*Sandbox) error                       { return errors.New("todo") }
func (bubblewrap) enter(*Sandbox) error                       { return nil }
func (bubblewrap) rewrite(_ *Sandbox, s Start) (Start, error) { return s, nil }
func (bubblewrap) words(*Sandbox) []string                    { return nil }
