// Package exec is the capability that runs programs which the executor's user names: each is a tool of its own.
//
//	ex.Register(exec.New(exec.Options{Tools: []exec.Tool{
//		{Name: "pytest", Command: []string{"uv", "run", "pytest"}, Description: "Run the tests."},
//	}}))
//
// A call gives arguments, which are added to the command. No shell is between: what a model writes is an
// argument and never syntax. The program runs in the workspace, and an argument that leads out of the roots is
// refused (arguments.go). This guards against mistakes; what the program itself does with its arguments and
// with the files of the workspace is not confined.
//
// Nothing is registered when no tool is named.
package exec

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
	"go.uber.org/zap"
)

// Tool is a program as a tool.
type Tool struct {
	Name        string   // of the tool: 1 to 64 of a-z 0-9 and _, a letter first
	Command     []string // the program and its first arguments; looked for in the PATH that commands have
	Description string   // for the model; default: what is run
	// Timeout is of a call that names none, and the longest it may ask for if that is more than 600 s.
	Timeout time.Duration // 120 s
}

// Options configures the capability. Zero fields are the defaults.
type Options struct {
	Tools []Tool

	Grace       time.Duration // between SIGTERM and SIGKILL; 2 s
	InlineBytes int           // of text in a result; 32 KiB, at least 4 KiB
	SpillBytes  int64         // of raw output kept in a file when it is more than that; 64 MiB

	// KeepEnv names variables to pass to programs although they look like secrets.
	KeepEnv []string
	// Secrets are credentials of the executor: a variable that contains one is never passed.
	Secrets []string
	// Children keeps hold of the processes that programs start; nil does not.
	Children *spawn.Keeper
	// LoginEnv is the environment of the user's login shell; nil asks the shell, once.
	LoginEnv map[string]string
}

// Exec is the capability. One value serves all sessions at once.
type Exec struct {
	options Options
}

// New makes the capability. It starts nothing.
func New(o Options) *Exec {
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	return &Exec{options: o}
}

// Name implements capabilities.Capability.
func (e *Exec) Name() string { return "exec" }

var toolName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`) // of at most 64 characters

// Check says what is wrong with a tool, if anything.
func (t Tool) Check() error {
	switch {
	case t.Name == "":
		return fmt.Errorf("name: is missing")
	case len(t.Name) > 64 || !toolName.MatchString(t.Name):
		return fmt.Errorf("name: %q is no name for a tool; want up to 64 of a-z, 0-9 and _, a letter first", t.Name)
	case len(t.Command) == 0 || t.Command[0] == "":
		return fmt.Errorf("command: is missing; want the program and its first arguments, as a list")
	case strings.ContainsRune(strings.Join(t.Command, ""), 0):
		return fmt.Errorf("command: contains a NUL character, which no argument can")
	case t.Timeout < 0:
		return fmt.Errorf("timeout: %v is negative", t.Timeout)
	}
	return nil
}

// CheckTools says what is wrong with a list of tools, and which one it is.
func CheckTools(tools []Tool) error {
	seen := map[string]bool{}
	for i, t := range tools {
		if err := t.Check(); err != nil {
			return fmt.Errorf("tool %d: %w", i+1, err)
		}
		if seen[t.Name] {
			return fmt.Errorf("tool %d: name: there is a tool %q already", i+1, t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

// Install implements capabilities.Capability. The error is a tool that cannot be one.
func (e *Exec) Install(r *capabilities.Registrar) error {
	if len(e.options.Tools) == 0 {
		return nil
	}
	if err := CheckTools(e.options.Tools); err != nil {
		return err
	}
	for _, t := range e.options.Tools {
		if by, taken := r.ToolTaken(t.Name); taken {
			return fmt.Errorf("the name %q is taken: %s has a tool of that name", t.Name, by)
		}
	}
	r.OnSessionStart(e.start)
	r.OnSessionEnd(e.end)
	for _, t := range e.options.Tools {
		capabilities.AddTool(r, e.describe(t), func(ctx context.Context, call *capabilities.Call, in input) (protocol.ToolOutput, error) {
			return e.run(ctx, call, t, in)
		})
	}
	return nil
}

func (e *Exec) describe(t Tool) capabilities.Tool {
	what := t.Description
	if what == "" {
		what = "Run " + strings.Join(t.Command, " ") + "."
	}
	timeout, longest := t.limits()
	return capabilities.Tool{
		Name: t.Name,
		Description: fmt.Sprintf("%s The arguments are added to the command %s, which runs in the workspace without a shell. An argument that leads out of the workspace is refused. "+
			"One that is all of the form $'…' is a name with escapes, as results show names that are not plain text. "+
			"An exit code that is not 0 is a result. The default timeout is %d ms, the longest %d ms.",
			what, quote(t.Command), timeout.Milliseconds(), longest.Milliseconds()),
		Annotations: protocol.Annotations{Destructive: true, OpenWorld: true},
		Command:     t.Command,
	}
}

func quote(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = capabilities.QuoteName(w)
	}
	return strings.Join(list, " ")
}

// limits are the timeout of a call that names none, and the longest.
func (t Tool) limits() (timeout, longest time.Duration) {
	timeout = t.Timeout
	if timeout <= 0 {
		timeout = protocol.DefaultBashTimeout
	}
	return timeout, max(timeout, protocol.MaxBashTimeout)
}

type input struct {
	Args      []string `json:"args,omitempty" jsonschema:"the arguments, one an element; no shell takes them apart; only $'a\\xff', as results show a name that is not plain text, is that name"`
	TimeoutMS int64    `json:"timeout_ms,omitempty" jsonschema:"ends the program after this many milliseconds"`
}

// Check implements protocol.Checker.
func (in input) Check() error {
	if in.TimeoutMS < 0 {
		return protocol.Errorf(protocol.CodeInvalidParams, "timeout_ms: is negative")
	}
	for i, arg := range in.Args {
		if strings.ContainsRune(arg, 0) {
			return protocol.Errorf(protocol.CodeInvalidParams, "args[%d]: contains a NUL character, which no argument can", i)
		}
	}
	return nil
}

// groupKey is where a session keeps the group of its programs.
type groupKey struct{}

func (e *Exec) start(_ context.Context, session *capabilities.Session) error {
	e.login() // a slow profile delays the first session, not its first call
	session.SetValue(groupKey{}, e.options.Children.NewGroup())
	return nil
}

// end ends what the session's programs left running.
func (e *Exec) end(session *capabilities.Session) {
	if group, ok := session.Value(groupKey{}).(*spawn.Group); ok {
		if survivors := group.Close(e.options.Grace); len(survivors) > 0 {
			session.Logger().Warn("programs survived the session", zap.Int("count", len(survivors)))
		}
	}
}

func (e *Exec) login() map[string]string {
	if e.options.LoginEnv != nil {
		return e.options.LoginEnv
	}
	return e.options.Children.Login()
}

func (e *Exec) run(ctx context.Context, call *capabilities.Call, t Tool, in input) (protocol.ToolOutput, error) {
	timeout, longest := t.limits()
	if in.TimeoutMS > 0 {
		// Compared before the conversion, which could overflow.
		if in.TimeoutMS > longest.Milliseconds() {
			return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeInvalidParams, "timeout_ms: %d is more than the longest, %d", in.TimeoutMS, longest.Milliseconds())
		}
		timeout = time.Duration(in.TimeoutMS) * time.Millisecond
	}
	group, ok := call.Session().Value(groupKey{}).(*spawn.Group)
	if !ok {
		return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeSessionNotActive, "the session runs no programs")
	}
	workspace := call.Session().Workspace()
	if workspace == nil {
		return protocol.ToolOutput{}, protocol.Errorf(protocol.CodeResourceUnavailable, "the session has no workspace").WithReason(protocol.ReasonWorkspaceUnavailable)
	}
	dir, err := workspace.ResolveDir(".")
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	args, err := checkArguments(workspace, in.Args)
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	command := spawn.Command{
		Argv: append(append([]string{}, t.Command...), args...),
		Dir:  dir,
		Env:  e.options.Children.Environment(e.login(), spawn.Policy{Keep: e.options.KeepEnv, Secrets: e.options.Secrets}, call.Session().Env()),
	}
	run, err := program.Start(ctx, call, group, command, program.Limits{
		Timeout: timeout, Grace: e.options.Grace, InlineBytes: e.options.InlineBytes, SpillBytes: e.options.SpillBytes, Live: true})
	if err != nil {
		return protocol.ToolOutput{}, err
	}
	report := run.Report(nil)
	return protocol.ToolOutput{Content: protocol.Text(report.Words()).Content, Structured: report, IsError: report.Failed()}, run.Err()
}
