package spawn

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// row and tree do without descendants: Windows keeps no trees, and only the child itself is ended.
type tree struct {
	pid     int
	pumps   []*pump
	gone    chan struct{}
	process *os.Process
	since   uint64 // not known here
}

func newTree(pid int, _ mark, pumps []*pump) *tree {
	process, _ := os.FindProcess(pid)
	return &tree{pid: pid, pumps: pumps, gone: make(chan struct{}), process: process}
}

// joinTrees ends the processes here already: there is no way to name several at once.
func joinTrees(_ *Group, list []*Process) *tree {
	joined := &tree{gone: make(chan struct{})}
	for _, p := range list {
		terminate(p.tree, 0)
	}
	close(joined.gone)
	return joined
}

func (t *tree) reaped() { close(t.gone) }

func (t *tree) lingers() bool { return false }

func (t *tree) members() []Member { return nil }

func (t *tree) seen() map[int]uint64 { return nil }

func dropDead(map[int]uint64) {}

// interrupt does nothing: a child without a console takes no Ctrl-C.
func (t *tree) interrupt() {}

func terminate(t *tree, _ time.Duration) []Survivor {
	select {
	case <-t.gone:
		return nil
	default:
	}
	if err := t.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return []Survivor{{Member{PID: t.pid}, err.Error()}}
	}
	select {
	case <-t.gone:
		return nil
	case <-time.After(2 * time.Second):
		return []Survivor{{Member{PID: t.pid}, "still there after it was killed"}}
	}
}

func attributes(Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func exitOf(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }

func busy(error) bool { return false }

func tooBig(error) bool { return false }

func executableSuffixes(name string) []string {
	if filepath.Ext(name) != "" {
		return []string{""}
	}
	return []string{".exe", ".cmd", ".bat", ".com"}
}

// drain cannot ask how much is in a pipe.
func drain(*os.File, []byte, Sink) {}

// settleWithoutDeadline waits for the end of the pipe and closes it under those that still hold it.
func settleWithoutDeadline(u *pump, deadline time.Time) {
	select {
	case <-u.settled:
	case <-time.After(time.Until(deadline)):
		_ = u.file.Close()
	}
}

func scriptFile(string) (*os.File, error) {
	return nil, errors.New("not supported on Windows")
}

func closeInheritedOnExec() {}

// sweep finds nothing: there is nothing to find it by.
func sweep(instance, *labels, bool, time.Duration) Report { return Report{} }

func endStrays(*Keeper) []Survivor { return nil }

// identity is the same for all files: a copied state directory is not noticed, and does no harm since
// nothing is found by it.
func identity(*os.File) string { return "" }

func (p *Process) signalInner(sig os.Signal) error { return p.proc.Signal(sig) }
