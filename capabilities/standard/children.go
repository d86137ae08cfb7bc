package standard

import (
	"context"

	"github.com/agent-executor/executor/capabilities/internal/sandbox"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// Children keeps hold of all child processes of a program, for all its executors: they end with it, also
// when it is killed, and what it leaves all the same is ended at the next start on the same state
// directory. Its methods may be called concurrently.
//
//	children := standard.NewChildren()
//	all := standard.All(standard.Config{Roots: roots, Children: children})
//	report := children.Open(stateDir) // before the first executor runs; says what an earlier program left
//	defer children.Close()            // after the last has ended
//	go standard.ReapOrphans(ctx)      // orphans come to this process from now on
type Children = spawn.Keeper

// Means says by what children are kept hold of on this machine, and Report what was left of earlier ones.
type (
	Means  = spawn.Means
	Report = spawn.Report
)

// Launch is how children are started, Launching one start for its hook to change, RunAs the user they run
// as and Limit a resource limit of theirs; Children.Configure takes it, before Open.
type (
	Launch    = spawn.Launch
	Launching = spawn.Launching
	RunAs     = spawn.RunAs
	Limit     = spawn.Limit
)

// Masker changes secrets in what children print, see Launch.Mask; a stream of package executor/redact is one.
type Masker = spawn.Masker

// ParseRunAs reads USER or USER:GROUP, each a name or a number; it looks nobody up.
func ParseRunAs(text string) (*RunAs, error) { return spawn.ParseRunAs(text) }

// ParseLimit reads NAME=VALUE, such as nofile=1024, as=4G or core=0.
func ParseLimit(text string) (Limit, error) { return spawn.ParseLimit(text) }

// NewChildren makes one. It does nothing before Open.
func NewChildren() *Children { return spawn.NewKeeper(spawn.Options{}) }

// ReapOrphans waits, until ctx is done, for processes whose parents have ended, when this process is the
// one that has to: process 1 of a container, and where Children is open. It takes no exit status that
// somebody else waits for.
func ReapOrphans(ctx context.Context) {
	if spawn.Adopts() {
		spawn.ReapOrphans(ctx)
	}
}

// Sandbox is what commands may do, as Launch.Sandbox; SandboxRoot is a directory they work in. What cannot be
// enforced on a machine is an error of Children.Configure, which says what is missing.
type (
	Sandbox     = sandbox.Policy
	SandboxRoot = sandbox.Root
)

// Modes and networks of a Sandbox.
const (
	SandboxOff      = sandbox.Off
	SandboxAuto     = sandbox.Auto
	NetworkOpen     = sandbox.Open
	NetworkLoopback = sandbox.Loopback
	NetworkNone     = sandbox.None
)

// SandboxModes are all modes.
func SandboxModes() []string { return sandbox.Modes() }

// SandboxNetworks are all networks.
func SandboxNetworks() []string { return sandbox.Networks() }

// DescribeSandbox says in words what a sandbox would enforce here, and what not; an error says what is missing.
// A command is started in it to see that, and ended. What is in force is in Means.Launch.
func DescribeSandbox(p Sandbox) ([]string, error) {
	k := NewChildren() // which is never opened
	if err := k.Configure(Launch{Sandbox: &p}); err != nil {
		return nil, err
	}
	return k.Means().Launch, nil
}
