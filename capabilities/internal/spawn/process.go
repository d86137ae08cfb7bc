package spawn

import (
	"os"
	"sync"
	"time"
)

// settleTime is how long after the exit of a child a pipe that others still hold is read for output
// that is on its way: `exec > >(tee log)` is printed by a process that ends a moment after the shell.
const settleTime = 100 * time.Millisecond

// Exit is how a child ended.
type Exit struct {
	// Code is the exit status; 128 plus the signal's number when a signal ended it, as a shell says it.
	Code int
	// Signal is the name of the signal that ended it ("SIGKILL"), else empty.
	Signal string
	// Background lists the descendants that were alive when Wait returned.
	Background []Member
	// Lost means that the child could not be ended and was given up; the other fields mean nothing.
	Lost bool

	UserTime, SystemTime time.Duration
}

// Process is a child. Its methods may be called concurrently. It ends by itself, through Terminate, or
// with its group.
type Process struct {
	group   *Group
	command string
	proc    *os.Process
	pid     int // of the command itself; proc is its parent when a sandbox is between
	tree    *tree
	stdin   *os.File
	pumps   []*pump

	exited chan struct{} // reaped
	done   chan struct{} // and what it had printed is delivered; exit is set
	ended  chan struct{} // and every pipe is closed: no goroutine is left

	mu   sync.Mutex // over exit until done is closed
	exit Exit

	reaped Exit // without Background; set before exited is closed
}

// PID is the child's process id. Without a sandbox it also names its session and process group.
func (p *Process) PID() int { return p.pid }

// Command is the command line, shortened to 200 characters.
func (p *Process) Command() string { return p.command }

// Stdin is the writing end of the child's standard input when Command.Input asked for one. The caller
// closes it; it is closed at the latest when the process has ended.
func (p *Process) Stdin() *os.File { return p.stdin }

// Exited is closed when the child has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Done is closed when the child has ended and all it printed before was delivered to the sinks. Without
// Command.Follow no sink is called afterwards.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended is closed when nobody holds the output pipes any more.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits for Done and says how the child ended.
func (p *Process) Wait() Exit {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Reaped says how the child ended, without Background, as soon as Exited is closed: also while a Sink
// still blocks. Before that, and for a child that was given up, ok is false.
func (p *Process) Reaped() (exit Exit, ok bool) {
	select {
	case <-p.exited:
		return p.reaped, !p.reaped.Lost
	default:
		return Exit{}, false
	}
}

// Background lists the processes of the tree that are alive now, without the child itself.
func (p *Process) Background() []Member { return p.tree.members() }

// Signal sends a signal to the child alone. After its end it does nothing and returns
// os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error {
	if p.pid == p.proc.Pid {
		return p.proc.Signal(sig)
	}
	return p.signalInner(sig)
}

// Interrupt sends SIGINT to the whole tree, as Ctrl-C would.
func (p *Process) Interrupt() { p.tree.interrupt() }

// Terminate ends the whole tree: SIGTERM, the grace, SIGKILL. It returns when nothing is left, with
// what could not be ended, and Done is closed then. A tree that has ended already is no error.
func (p *Process) Terminate(grace time.Duration) []Survivor {
	survivors := terminate(p.tree, grace)
	p.abandon(survivors)
	<-p.done
	return survivors
}

// Kill is Terminate without a grace, also while another call of that still waits for its own.
func (p *Process) Kill() []Survivor {
	survivors := kill(p.tree)
	p.abandon(survivors)
	<-p.done
	return survivors
}

// abandon gives the child up when it is among those that cannot be ended.
func (p *Process) abandon(survivors []Survivor) {
	for _, s := range survivors {
		if s.PID != p.proc.Pid {
			continue
		}
		select {
		case <-p.exited:
			return // the survivor is a member of its session by another name
		default:
		}
		p.settle()
		p.finish(Exit{Code: -1, Lost: true})
		return
	}
}

// release waits for the goroutines after the tree was ended. A survivor may still hold the pipes: then
// they are closed under it.
func (p *Process) release() {
	<-p.done
	select {
	case <-p.ended:
	case <-time.After(settleTime):
		p.closePipes()
		if p.Wait().Lost {
			return // its waiter stays until the system lets the child go
		}
		<-p.ended
	}
	p.group.forget(p)
}

// wait reaps the child and closes the channels, one after the other.
func (p *Process) wait() {
	state, err := p.proc.Wait()
	p.tree.reaped()
	var exit Exit
	if err != nil {
		exit = Exit{Code: -1, Lost: true}
	} else {
		exit = exitOf(state)
		exit.UserTime, exit.SystemTime = state.UserTime(), state.SystemTime()
	}
	p.reaped = exit
	close(p.exited)
	p.settle()
	if p.held() || p.tree.lingers() {
		exit.Background = p.tree.members()
	}
	p.finish(exit)
	for _, u := range p.pumps {
		<-u.ended
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	close(p.ended)
	if !p.tree.lingers() {
		p.group.forget(p)
	}
}

func (p *Process) finish(exit Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done: // given up before
	default:
		p.exit = exit
		close(p.done)
	}
}

// settle waits until the pumps have delivered what is in the pipes.
func (p *Process) settle() {
	deadline := time.Now().Add(settleTime)
	for _, u := range p.pumps {
		u.settle(deadline)
	}
	for _, u := range p.pumps {
		<-u.settled
	}
}

// held says whether somebody still holds an output pipe.
func (p *Process) held() bool {
	for _, u := range p.pumps {
		select {
		case <-u.ended:
		default:
			return true
		}
	}
	return false
}

func (p *Process) closePipes() {
	for _, u := range p.pumps {
		_ = u.file.Close()
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
}
