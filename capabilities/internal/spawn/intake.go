package spawn

import (
	"os"
	"time"
)

// Intake reads a pipe that the caller has made, in the way the output of a process is read. It is for a
// program that is given another pipe for each of the things it does. Its methods may be called
// concurrently; whoever made it ends it with Close.
type Intake struct{ pump *pump }

// NewIntake reads the pipe from now on, and delivers to the sink what comes. It takes over the file.
func NewIntake(file *os.File, sink Sink) *Intake {
	u := newPump(file, sink)
	go u.run(false)
	return &Intake{u}
}

// Settle ends the delivering: what is in the pipe now comes to the sink, and then its end. It returns
// when that is done, and says whether somebody still holds the other end of the pipe. What such a one
// prints later is read and reaches nobody, until Close. A second call changes nothing.
func (i *Intake) Settle() (held bool) {
	i.pump.settle(time.Now().Add(settleTime))
	<-i.pump.settled
	select {
	case <-i.pump.ended:
		return false
	default:
		return true
	}
}

// Ended is closed when nobody holds the other end any more, or the intake has been closed.
func (i *Intake) Ended() <-chan struct{} { return i.pump.ended }

// Close stops reading and waits for the end of it. It may be called twice.
func (i *Intake) Close() {
	_ = i.pump.file.Close()
	<-i.pump.ended
}
