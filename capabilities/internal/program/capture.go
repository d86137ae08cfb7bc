package program

import (
	"context"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// Answer is what a program printed that was asked something.
type Answer struct {
	Stdout []byte
	Stderr []byte
	Exit   spawn.Exit
}

// maxStderr is how much of the standard error of an Answer is kept, from its end.
const maxStderr = 8 << 10

// Capture runs a program and returns what it printed, byte for byte, or gives it to c.Stdout when that is set.
// More than most bytes is an error: the program is ended then. The error is a *protocol.Error: it did not start, it printed too much, it did not
// end in time; an exit status is in the Answer.
func Capture(ctx context.Context, group *spawn.Group, c spawn.Command, most int, l Limits) (Answer, error) {
	l.defaults()
	if ctx.Err() != nil {
		return Answer{}, endError(endingOf(ctx), true, l.Timeout)
	}
	tooMuch, cancel := context.WithCancel(ctx)
	defer cancel()
	var a Answer
	over := false // written by one sink, read after its end
	if c.Stdout == nil {
		c.Stdout = func(p []byte) {
			if len(a.Stdout)+len(p) > most {
				over = true
				cancel()
				return
			}
			a.Stdout = append(a.Stdout, p...)
		}
	}
	c.Stderr = func(p []byte) {
		a.Stderr = append(a.Stderr, p...)
		if extra := len(a.Stderr) - maxStderr; extra > maxStderr {
			a.Stderr = append(a.Stderr[:0], a.Stderr[extra:]...)
		}
	}
	p, err := group.Start(c)
	if err != nil {
		return a, StartError(err)
	}
	end, _ := await(tooMuch, p, l)
	a.Exit = p.Wait()
	switch {
	case over:
		return a, protocol.Errorf(protocol.CodePayloadTooLarge, "%s printed more than %d bytes", p.Command(), most)
	case end != Exited:
		return a, endError(end, ctx.Err() != nil, l.Timeout)
	}
	return a, nil
}
