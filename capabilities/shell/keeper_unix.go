//go:build unix

package shell

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

const (
	// envTime is how long the shell may take to say what it exports, maxEnv how long that may be.
	envTime = 2 * time.Second
	maxEnv  = 2 << 20
)

// keeper keeps the persistent shell of a session: the one that runs, or what is known of the last one.
// Only who has the turn uses it; close comes after all calls.
type keeper struct {
	session *capabilities.Session
	turn    chan struct{} // holds one value while it is somebody's turn

	shell  *persistent // nil before the first command, and after the end of the last shell
	had    bool        // there was a shell before, whose end nobody has been told of
	cwd    string      // of the last shell; empty before the first
	pipes  pipes
	output []*spawn.Intake // of earlier commands, that somebody still held

	mu      sync.Mutex
	lastDir string   // cwd, for those who do not have the turn
	lastEnv []string // what the shell exported when it was asked last; nil: never
}

// cwdNote is where it is noted where the shell was: after a restart of the executor another one takes its
// place there.
const cwdNote = "shell/cwd"

func newKeeper(s *capabilities.Session, children *spawn.Keeper) *keeper {
	k := &keeper{turn: make(chan struct{}, 1), session: s, pipes: pipes{children: children}}
	if cwd, ok := s.Notes(cwdNote)[""]; ok {
		k.had, k.cwd, k.lastDir = true, string(cwd), string(cwd)
	}
	return k
}

// ready is the shell for the next command, the living one or a new one. lost says that it is a new one
// in the place of another. cd is where it has to go first, because its directory, gone, is not there any more.
func (k *keeper) ready(group *spawn.Group, env func() []string, workspace string) (sh *persistent, gone, cd string, lost bool, err error) {
	if k.shell != nil && !k.shell.alive() {
		k.forget()
	}
	if k.shell == nil {
		if k.cwd == "" {
			k.cwd = workspace
		}
		if cd = existing(k.cwd, workspace); cd != k.cwd {
			gone = k.cwd
		}
		if err = k.pipes.open(); err == nil {
			k.shell, err = startPersistent(group, env(), cd, filepath.Join(k.pipes.dir, "end"))
		}
		if err != nil {
			return nil, "", "", false, err
		}
		lost, k.had = k.had, false
	} else if k.shell.astray() {
		gone, cd = k.shell.cwd, existing(k.shell.cwd, workspace)
	}
	if gone == "" {
		cd = ""
	}
	return k.shell, gone, cd, lost, nil
}

// done takes the end of a command. It says whether the shell has ended with it.
func (k *keeper) done(x *execution) (lost bool) {
	if x.held {
		k.output = append(k.output, x.out)
	}
	kept := k.output[:0]
	for _, o := range k.output {
		select {
		case <-o.Ended():
		default:
			kept = append(kept, o)
		}
	}
	k.output = kept
	k.cwd = x.sh.cwd
	k.mu.Lock()
	moved := k.lastDir != k.cwd
	k.lastDir = k.cwd
	k.mu.Unlock()
	if moved {
		k.session.Note(cwdNote, []byte(k.cwd))
	}
	if x.sh.alive() {
		return false
	}
	k.forget()
	return true
}

func (k *keeper) forget() {
	_ = k.shell.in.Close()
	k.cwd, k.had, k.shell = k.shell.cwd, true, nil
}

// surroundings is the directory and the environment that the shell gives to what it starts. While a
// command runs in it, it is what they were when it was asked last; env is nil if it never was.
func (k *keeper) surroundings() (dir string, env []string) {
	select {
	case k.turn <- struct{}{}:
		if k.shell != nil && k.shell.alive() {
			if env := k.exported(); env != nil {
				k.mu.Lock()
				k.lastEnv = env
				k.mu.Unlock()
			}
		}
		k.give()
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lastDir, k.lastEnv
}

// exported asks the shell. It has the turn.
func (k *keeper) exported() []string {
	var out []byte
	x, err := k.shell.begin(&k.pipes, `\builtin command -p env -0`, "", func(p []byte) {
		if len(out) < maxEnv {
			out = append(out, p...)
		}
	})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), envTime)
	defer cancel()
	end := x.wait(ctx, nil)
	if end != exited {
		x.stop(0)
	}
	x.finish()
	if k.done(x); end != exited || x.status == nil || x.status.code != 0 {
		return nil
	}
	env := []string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if !strings.HasPrefix(entry, "_=") && !strings.HasPrefix(entry, "SHLVL=") {
			env = append(env, entry)
		}
	}
	return env
}

// close ends the shell, before the group ends what it has left. release ends the rest after that.
func (k *keeper) close() {
	if k.shell != nil {
		k.shell.close()
	}
}

func (k *keeper) release() {
	for _, o := range k.output {
		o.Close()
	}
	k.pipes.remove()
}

// existing is the directory, or the nearest one above it that is there: not above the workspace, though,
// if it was in there.
func existing(dir, workspace string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			if at != dir && within(dir, workspace) && !within(at, workspace) {
				return workspace
			}
			return at
		}
		if at == filepath.Dir(at) {
			return workspace
		}
	}
}

func within(dir, root string) bool {
	return dir == root || strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}
