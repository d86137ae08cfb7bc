package spawn

import (
	"os"
	"runtime"
	"strings"
)

// mark is how the descendants of one child are known.
type mark struct {
	marker string
	label  uint64 // 0 for none
	labels *labels
	before numbering // of a time before its start
}

// fork starts a child of the group, in its control group where there is one. The child has the label, if
// labelled, and ends with the executor where the system and the keeper do that.
func (g *Group) fork(file string, argv []string, attr *os.ProcAttr, label uint64) (proc *os.Process, labelled bool, err error) {
	home := g.home()
	proc, labelled, err = g.forkIn(home, file, argv, attr, label)
	if err == nil || home == nil || busy(err) {
		return proc, labelled, err
	}
	// There are many reasons why a control group takes nobody in, told by many errors.
	proc, labelled, err = g.forkIn(nil, file, argv, attr, label)
	if err == nil {
		g.leaveHome()
	}
	return proc, labelled, err
}

func (g *Group) forkIn(home *cgroup, file string, argv []string, attr *os.ProcAttr, label uint64) (proc *os.Process, labelled bool, err error) {
	own, sys := *attr, *attr.Sys
	own.Sys = &sys
	if g.launch.confined() && (g.thread == nil || !g.thread.confined) {
		return nil, false, errNotConfined
	}
	if !g.launch.byThread() {
		home.use(&sys)
	}
	forkOne := func() {
		g.launch.prepare(&sys)
		unblocked(func() {
			labelled = withLabel(label, func() { proc, err = os.StartProcess(file, argv, &own) })
		})
		if err != nil {
			return
		}
		if err = g.launch.settle(proc.Pid, home); err != nil {
			_ = proc.Kill()
			_, _ = proc.Wait()
		}
	}
	if g.thread == nil {
		runtime.LockOSThread() // a child that is held is let go by the thread that started it
		defer runtime.UnlockOSThread()
		forkOne()
		return proc, labelled, err
	}
	g.thread.do(func(lasting bool) {
		switch {
		case lasting:
			dieWithParent(&sys)
		case g.launch.confined(): // the thread has ended
			err = errNotConfined
			return
		}
		forkOne()
	})
	return proc, labelled, err
}

// home is the control group for the children of the group; nil where there is none. It is made for the
// first of them.
func (g *Group) home() *cgroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keeper == nil || g.keeper.cgroup == nil || g.homeless {
		return nil
	}
	if g.cgroup == nil {
		c, err := newCgroup(g.keeper.cgroup.path, g.id[strings.LastIndexByte(g.id, '-')+1:])
		if err != nil {
			g.homeless = true
			return nil
		}
		g.cgroup = c
	}
	return g.cgroup
}

// leaveHome says that no more children are to be started in the control group.
func (g *Group) leaveHome() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.homeless = true
}
