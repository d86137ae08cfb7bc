// Package shell is the capability that runs commands: the tools bash and run_shell.
//
//	ex.Register(shell.New(shell.Options{}))
//
// A call of bash is a fresh `bash -c` with nothing on its standard input, in the session's workspace or
// a directory below its roots. It returns when the shell exits. Calls of run_shell of one session go, one
// after another, to one bash that keeps its directory, variables and functions between them. What a
// command left running in the background goes on, is listed in the result, and is ended with the session.
//
// The parts: bash.go is the tool bash; runshell_unix.go the tool run_shell, persistent_unix.go the bash
// behind it and how one talks with it, execution_unix.go one command in it, keeper_unix.go which shell the
// next command goes to. task.go is a command in the background, tasks.go those of a session, taskrun.go how one
// begins, tasktools.go the tools for them, wake.go how the brain is told of an end. report.go takes what a command prints and makes a result of it, with internal/program.
package shell

import (
	"context"
	"os/exec"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// Options configures the capability. Zero fields are the defaults.
type Options struct {
	Timeout    time.Duration // of a call that names none; 120 s
	MaxTimeout time.Duration // the longest a call may ask for; 600 s
	Grace      time.Duration // between SIGTERM and SIGKILL; 2 s

	InlineBytes int   // of text in a result; 32 KiB, at least 4 KiB
	SpillBytes  int64 // of raw output kept in a file when it is more than that; 64 MiB

	MaxTasks  int           // background tasks that run at once in a session; 32
	KeepTasks int           // ended tasks of a session that stay readable, the newest; 64
	TaskBytes int           // of a task's output that wait to be read, the newest; 1 MiB
	TaskGrace time.Duration // between SIGTERM and SIGKILL when a task is killed; 5 s

	// KeepEnv names variables to pass to commands although they look like secrets.
	KeepEnv []string
	// Secrets are credentials of the executor: a variable that contains one is never passed.
	Secrets []string
	// Children keeps hold of the processes that commands start; nil does not.
	Children *spawn.Keeper
	// LoginEnv is the environment of the user's login shell; nil asks the shell, once.
	LoginEnv map[string]string
}

const minInline = 4 << 10

func (o *Options) defaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Timeout, protocol.DefaultBashTimeout)
	set(&o.MaxTimeout, protocol.MaxBashTimeout)
	set(&o.Grace, 2*time.Second)
	set(&o.TaskGrace, 5*time.Second)
	for _, n := range []struct {
		field *int
		to    int
	}{{&o.MaxTasks, 32}, {&o.KeepTasks, 64}, {&o.TaskBytes, 1 << 20}} {
		if *n.field <= 0 {
			*n.field = n.to
		}
	}
	if o.InlineBytes <= 0 {
		o.InlineBytes = protocol.DefaultInlineResult
	}
	o.InlineBytes = max(o.InlineBytes, minInline)
	if o.SpillBytes <= 0 {
		o.SpillBytes = 64 << 20
	}
	o.Timeout = min(o.Timeout, o.MaxTimeout)
}

// Shell is the capability. One value serves all sessions at once.
type Shell struct {
	options Options
}

// New makes the capability. It starts nothing.
func New(o Options) *Shell {
	o.defaults()
	return &Shell{options: o}
}

// Name implements capabilities.Capability.
func (s *Shell) Name() string { return protocol.CapabilityShell }

// Install implements capabilities.Capability. Without a bash on this machine nothing is registered.
func (s *Shell) Install(r *capabilities.Registrar) error {
	if _, err := exec.LookPath("bash"); err != nil {
		return nil
	}
	r.Advertise(protocol.ShellDetails{Enabled: true})
	r.OnSessionStart(s.start)
	r.OnSessionEnd(s.end)
	capabilities.AddTool(r, s.bashTool(), s.bash)
	s.installPersistent(r)
	return nil
}

func (s *Shell) start(_ context.Context, session *capabilities.Session) error {
	s.login() // a slow profile delays the first session, not its first command
	st := s.newState(session)
	st.tasks.restore()
	session.SetValue(stateKey{}, st)
	return nil
}

// end ends what the session's commands left running.
func (s *Shell) end(session *capabilities.Session) {
	st, err := stateOf(session)
	if err != nil {
		return
	}
	st.shell.close()
	st.tasks.stop()
	if survivors := st.group.Close(s.options.Grace); len(survivors) > 0 {
		session.Logger().Warn("processes survived the session", survivorField(survivors))
	}
	st.tasks.wait()
	st.shell.release()
}

func (s *Shell) login() map[string]string {
	if s.options.LoginEnv != nil {
		return s.options.LoginEnv
	}
	return s.options.Children.Login()
}

// environment is what a command of this session sees.
func (s *Shell) environment(session *capabilities.Session, explicit map[string]string) []string {
	env := session.Env()
	if env == nil {
		env = map[string]string{}
	}
	for name, value := range explicit {
		env[name] = value
	}
	return s.options.Children.Environment(s.login(), spawn.Policy{Keep: s.options.KeepEnv, Secrets: s.options.Secrets}, env)
}
