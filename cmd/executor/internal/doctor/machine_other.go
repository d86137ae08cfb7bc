//go:build !unix

package doctor

import "context"

// PTY says that there are none here.
func PTY(context.Context) Result { return skip("this system has no terminals of that kind") }

// Limits says that there are none here.
func Limits(context.Context) Result { return skip("this system has no limits of that kind") }
