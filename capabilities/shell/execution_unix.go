//go:build unix

package shell

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

const (
	// firstLook is when it is looked for the first time whether a shell that says nothing has come back
	// without a word; the time to the next doubles up to lastLook.
	firstLook = 100 * time.Millisecond
	lastLook  = time.Second
	// answerTime is how long a shell that waits for requests may take to answer one.
	answerTime = time.Second
	// askAgain is how long after a question the next one comes.
	askAgain = 150 * time.Millisecond
)

// execution is one command in the persistent shell.
type execution struct {
	sh    *persistent
	files files
	out   *spawn.Intake
	began spawn.Moment

	status    *status // nil: the shell did not say
	survivors []spawn.Survivor
	held      bool // somebody still holds the output
	unseen    bool // the shell had ended before it read the command
	mute      bool // the shell was ended because it said nothing
	printed   bool // written by the reader of the output, which ends with finish
	useless   bool // the shell was ended because it could not open the files of a command

	refused bool // the request could not be written
	asked   int  // what the shell had been told with it
}

// begin makes the shell run a command, in another directory if one is named.
func (sh *persistent) begin(d *pipes, text, cd string, sink spawn.Sink) (*execution, error) {
	f, err := d.make(text)
	if err != nil {
		return nil, err
	}
	x := &execution{sh: sh, files: f, began: spawn.Now()}
	x.out = spawn.NewIntake(f.read, d.children.Masked(nil, func(p []byte) {
		x.printed = x.printed || len(p) > 0
		sink(p)
	}))
	sh.expectNothing()
	before := ""
	if sh.code != 0 && strings.Contains(text, "$?") {
		before = fmt.Sprintf("(exit %d) || ", sh.code) // what the command before has ended with
	}
	line := before + `\builtin . ` + quoted(f.text) + ` </dev/null >|` + quoted(f.output) + ` 2>&1; ` + sh.ask() + "\n"
	if cd != "" {
		line = `\builtin cd -- ` + quoted(cd) + "\n" + line
	}
	sh.tell(line)
	x.refused, x.asked = sh.deaf, sh.told
	return x, nil
}

// wait waits for the end of the command, by itself or because it is not to go on.
func (x *execution) wait(ctx context.Context, timeout <-chan time.Time) ending {
	pause := firstLook
	look := time.NewTimer(pause)
	defer look.Stop()
	const (
		quiet  = iota
		probed // the shell was sent an empty line, which it reads when it waits for requests
		waits  // it has read that; the answer may still be on its way
	)
	for at := quiet; ; {
		select {
		case st := <-x.sh.answer:
			x.status = &st
			return exited
		case <-x.sh.p.Exited():
			x.gone()
			return exited
		case <-timeout:
			return x.unless(timedOut)
		case <-ctx.Done():
			return x.unless(canceledOr(ctx))
		case <-look.C:
			switch {
			case x.sh.deaf: // it has become another program, whose end is the command's
				x.sh.find("")
				pause = min(2*pause, lastLook)
				look.Reset(pause)
			case at == waits:
				x.demand()
				return exited
			case at == quiet && x.sh.unread() == 0: // else it has not come to the command yet
				x.sh.tell("\n")
				at = probed
				look.Reset(firstLook / 4)
			case at == quiet:
				look.Reset(firstLook)
			case x.sh.unread() == 0:
				at = waits
				look.Reset(firstLook / 4)
			default:
				pause = min(2*pause, lastLook)
				look.Reset(pause)
			}
		}
	}
}

// unless says how it ends when the time has come: the command's own end in the same moment is the
// better answer.
func (x *execution) unless(end ending) ending {
	select {
	case st := <-x.sh.answer:
		x.status = &st
		return exited
	case <-x.sh.p.Exited():
		x.gone()
		return exited
	default:
		return end
	}
}

// gone takes the answer that a shell has given before its end. Without one it may not even have read
// the command: then the last byte of that, and all it was told since, is still there.
func (x *execution) gone() {
	<-x.sh.p.Done()
	x.sh.leave()
	select {
	case st := <-x.sh.answer:
		x.status = &st
	default:
		x.unseen = x.refused || x.sh.unread() > x.sh.told-x.asked
	}
}

// demand asks a shell that waits for requests and has not answered the last one: an error has kept it
// from that, or something that the command has set up. Without an answer it is of no use any more.
func (x *execution) demand() {
	x.sh.tell(x.sh.ask() + "\n")
	if !x.back(answerTime) {
		x.mute = true
		x.sh.kill()
	}
}

// back waits for the answer, or the end, of the shell.
func (x *execution) back(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case st := <-x.sh.answer:
		x.status = &st
		return true
	case <-x.sh.p.Exited():
		x.gone()
		return true
	case <-timer.C:
		return false
	}
}

// recall asks a shell that was interrupted, and asks again when it has read the question and does not
// answer: the interrupt may have come in between.
func (x *execution) recall(limit time.Duration) bool {
	end := time.Now().Add(limit)
	for first := true; ; first = false {
		if first || x.sh.unread() == 0 {
			x.sh.tell("\n" + x.sh.ask() + "\n") // the interrupt may swallow what is read first
		}
		left := time.Until(end)
		if x.back(min(left, askAgain)) {
			return true
		}
		if left <= askAgain {
			return false
		}
	}
}

// stop ends the command: SIGINT to what it has started and to the shell, then SIGTERM and SIGKILL to
// what is left, and the shell as well if it does not come back. What earlier commands have left in the
// background stays.
func (x *execution) stop(grace time.Duration) {
	part := x.sh.p.Since(x.began, x.sh.left)
	_ = os.Truncate(x.files.text, 0) // if the shell has not come to it yet, there is nothing to be run
	x.sh.interrupt()                 // first: what ends before it is told does not go on to the next command
	part.Interrupt()
	back := x.recall(grace / 2)
	x.survivors = part.Terminate(grace)
	if back || x.back(answerTime/10) {
		return
	}
	x.sh.interrupt()
	if !x.recall(answerTime) {
		x.sh.kill()
		x.survivors = part.Terminate(0)
	}
}

// finish ends the output. It returns what the command has left in the background.
func (x *execution) finish() (background []spawn.Member) {
	sh := x.sh
	_ = x.files.write.Close()
	x.held = x.out.Settle()
	x.files.remove()
	if x.status != nil {
		sh.find(x.status.pwd)
		sh.code = x.status.code
		switch {
		case strings.ContainsRune(x.status.options, 'r'):
			sh.kill()
		case sh.code == 1 && !x.printed && !sh.opens(): // as a command that was not run looks
			x.useless = true
			sh.kill()
		}
	}
	if !x.held && (x.status == nil || x.status.last == sh.last) {
		return nil
	}
	if x.status != nil {
		sh.last = x.status.last
	}
	was := sh.left
	left, members := sh.p.Leave()
	sh.left = left
	for _, m := range members {
		if start, known := was[m.PID]; !known || start != left[m.PID] {
			background = append(background, m)
		}
	}
	return background
}
