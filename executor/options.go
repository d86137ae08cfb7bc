package executor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/rpc"
)

// Options of New. Zero fields are defaults; URL is required, or what says otherwise
// where the brain is: Credentials, or Dial.
type Options struct {
	// URL of the brain: wss://, unix:///path, or ws://, which is for loopback only
	// unless Insecure is set. With unix+listen:///path the brain dials: the executor makes
	// that socket, for its own user, and lets in who has the Token.
	URL      string
	Insecure bool
	// Token returns the credential; it is asked before every dial, and must return when
	// ctx is done. nil: none is sent. For unix+listen it is what the brain has to send,
	// asked for each of its dials, and required.
	Token func(ctx context.Context) (string, error)
	// Credentials is Token for credentials that end: it is asked before every dial,
	// unless it just was, and at 80 % of the life of what it gave last. Exchange is one.
	Credentials func(ctx context.Context) (Credential, error)
	// TLS is for wss (default: the system's roots). TLSSource is TLS that can change: it is
	// asked before every dial instead.
	TLS       *tls.Config
	TLSSource func() (*tls.Config, error)
	// Dial opens the transport (default: rpc.Dial to URL).
	Dial func(ctx context.Context, token string) (rpc.Frames, error)
	// DialChannel opens the transport of a channel beside the control connection, for the
	// query of t; it may be called concurrently. Default: rpc.Dial to URL; with Dial alone
	// there are no such channels.
	DialChannel func(ctx context.Context, token string, t protocol.ChannelTarget) (rpc.Frames, error)

	// Dialects are other spellings of the protocol that are offered behind it,
	// rpc.BMA() for example.
	Dialects []rpc.Dialect

	// Name of this executor (default: the host's name), and the environment it
	// belongs to.
	Name          string
	EnvironmentID string
	Version       string // of the program (default: its build's)

	// StateDir keeps across restarts who the executor is, its sessions and what it owes
	// the brain; it is made with mode 0700 and belongs to one process at a time. What a
	// session was assigned with is in it, secrets for its servers included. "": nothing
	// is kept.
	StateDir string
	// Workspace is where sessions work (default: the current directory, shared).
	Workspace Workspace

	MaxSessions       int           // default 16
	MaxInFlight       int           // requests of the brain handled at once (default 64)
	MinBackoff        time.Duration // of reconnects (default 500 ms)
	MaxBackoff        time.Duration // default 30 s
	MaxAttempts       int           // in a row without a healthy connection, then Run ends (default 0: no limit)
	RequestTimeout    time.Duration // no answer for so long: the connection is dead (default 30 s)
	DrainTimeout      time.Duration // for running calls when asked to leave (default 30 s)
	InlineResultBytes int           // longer text is spilled to a file (default 32 KiB)

	// Decide is asked before anything is accepted that a session wants done: every tool's call, and every
	// method that starts or changes something. Package trust has one. nil: all is done, but what permission.mode
	// says must be asked about is denied, since there is nobody to ask.
	Decide gate.Decide
	// Wrap is called around every tool: redaction, measuring.
	Wrap func(next capabilities.ToolHandler) capabilities.ToolHandler
	// Woken says that this process was away just now: the machine has woken from a suspend,
	// or the process was stopped. nil: it is looked for every two seconds.
	Woken <-chan struct{}
	// OnState is told of changes, in order, on a goroutine of its own.
	OnState func(State)
	// OnCall is told of each call that has ended, when its result is recorded. It is called
	// concurrently and must be quick.
	OnCall func(CallEnded)
	// OnResultLost is told of results that the brain refused for good.
	OnResultLost func(protocol.ToolResultParams, error)
	Logger       *zap.Logger // default: none
}

// Workspace says where sessions work.
type Workspace struct {
	// Roots are the directories file tools and working directories stay inside. The
	// first is the workspace itself (default: the current directory).
	Roots []capabilities.Root
	// PerSession gives each session a directory of its own under the first root.
	PerSession bool
}

// Check says what New would refuse in the options by themselves, and nil when there is
// nothing. It takes no directory, and changes nothing.
func (o Options) Check() error { return o.setDefaults() }

func (o *Options) setDefaults() error {
	if o.Dial == nil && (o.URL != "" || o.Credentials == nil) {
		if err := o.checkURL(); err != nil {
			return err
		}
	}
	if o.TLS != nil && o.TLSSource != nil {
		return errors.New("TLS and TLSSource are both given; leave one out")
	}
	if o.Token != nil && o.Credentials != nil {
		return errors.New("token and credentials are both given; leave one out")
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname()
	}
	if o.Version == "" {
		o.Version = Version()
	}
	if len(o.Workspace.Roots) == 0 {
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
		o.Workspace.Roots = []capabilities.Root{{Path: dir}}
	}
	if err := o.Workspace.check(); err != nil {
		return err
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	setDefault(&o.MaxSessions, 16)
	setDefault(&o.MaxInFlight, protocol.DefaultMaxInFlight)
	setDefault(&o.MinBackoff, protocol.DefaultMinBackoff)
	setDefault(&o.MaxBackoff, protocol.DefaultMaxBackoff)
	setDefault(&o.RequestTimeout, protocol.DefaultRequestTimeout)
	setDefault(&o.DrainTimeout, protocol.DefaultDrainTimeout)
	setDefault(&o.InlineResultBytes, protocol.DefaultInlineResult)
	return nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// checkURL refuses what could only fail later, and a token in clear text over a
// network.
func (o *Options) checkURL() error {
	if o.URL == "" {
		return errors.New("brain URL is missing; give one like wss://host/executor")
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return errors.New("brain URL: not a URL; give one like wss://host/executor") // the error itself would repeat a password
	}
	if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port < 1 || port > 65535) {
		return fmt.Errorf("brain URL %q: the port must be between 1 and 65535", u.Redacted())
	}
	switch u.Scheme {
	case "unix", listenScheme:
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return fmt.Errorf("brain URL %q: want %s:///absolute/path", u.Redacted(), u.Scheme)
		}
		if len(u.Path) > rpc.MaxSocketPath {
			return fmt.Errorf("brain URL %q: the path is longer than the %d bytes a socket's may have; use a shorter one", u.Redacted(), rpc.MaxSocketPath)
		}
		if u.Scheme == listenScheme && o.Token == nil {
			return fmt.Errorf("brain URL %q: a token is required to listen, or everybody on this machine could drive the executor; give the brain's with --token-file FILE", u.Redacted())
		}
		return nil
	case "wss":
		return nil
	case "ws":
		if o.Insecure || isLoopback(u.Hostname()) {
			return nil
		}
		return fmt.Errorf("brain URL %q: ws:// would send the token in clear text to another host; use wss://, or allow it with --insecure", u.Redacted())
	case "":
		return fmt.Errorf("brain URL %q: not a URL; give one like wss://host/executor", u.Redacted())
	default:
		return fmt.Errorf("brain URL %q: the scheme must be wss, ws, unix or unix+listen", u.Redacted())
	}
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Version of the program this package is built into, from its build information.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(len(s.Value), 12)]
		}
	}
	return "devel"
}

// credentials is whichever source there is.
func (o *Options) credentials() func(context.Context) (Credential, error) {
	token := o.Token
	if token == nil {
		return o.Credentials
	}
	return func(ctx context.Context) (Credential, error) {
		t, err := token(ctx)
		return Credential{Token: t}, err
	}
}

func (o *Options) info() protocol.ExecutorInfo {
	return protocol.ExecutorInfo{Name: o.Name, OS: runtime.GOOS, Arch: runtime.GOARCH, Version: o.Version}
}
