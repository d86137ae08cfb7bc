package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

const shutdownTimeout = 10 * time.Second

// serveOptions are the flags of brain serve.
type serveOptions struct {
	listen, tokenFile, stateDir string
	environmentKeyFile          string
	tokenTTL                    time.Duration
	logLevel, logFormat         string
	dial                        []string
}

func serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Accept executors until told to stop",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.stateDir, err = stateDir(cmd); err != nil {
				return err
			}
			if err := checkDials(o.dial); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return serve(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:7070", "`ADDR` executors connect to, at /executor; the status page is at /")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token executors have to send, at least 16 characters; it is made when there is none (default: token in the state directory)")
	f.StringVar(&o.environmentKeyFile, "environment-key-file", "", "`FILE` with the key for which executors get tokens that end, of any environment, beside the token, at least 16 characters; it is made when there is none (default: no exchange)")
	f.DurationVar(&o.tokenTTL, "token-ttl", time.Hour, "`TIME` the tokens of the exchange last")
	f.StringArrayVar(&o.dial, "dial", nil, "`URL` unix:///path of an executor that listens (executor run --brain unix+listen:///path), which is sent the same token; may be repeated")
	f.StringVar(&o.logLevel, "log-level", "info", "`LEVEL` of the log: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "console", "`FORMAT` of the log: console or json")
	return c
}

// serve runs the brain until ctx is done.
func serve(ctx context.Context, o serveOptions, stdout, stderr io.Writer) error {
	hide := cli.NewRedactor(stderr)
	log, err := cli.Logger(hide, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	defer func() { _ = cli.SyncLogger(log) }()

	lock, warning, err := cli.LockState(o.stateDir, "brain")
	if err != nil {
		return err
	}
	defer lock.Close()
	if warning != "" {
		log.Warn(warning)
	}
	tokenFile := o.tokenFile
	if tokenFile == "" {
		tokenFile = filepath.Join(o.stateDir, "token")
	}
	token, made, err := cli.EnsureToken(tokenFile)
	if err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	hide.Add(token)
	if warning := cli.TokenFileWarning(tokenFile); warning != "" {
		log.Warn(warning)
	}

	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	defer listener.Close()
	control, err := cli.ListenControl(o.stateDir)
	if err != nil {
		return err
	}
	defer control.Close()

	s := newServer(token, log)
	if err := s.exchange(&o, hide); err != nil {
		return err
	}
	defer s.brain.Close("going away")
	what := "token file:"
	if made {
		what = "token file, made now:"
	}
	addr, further := dialAddress(o.listen, listener.Addr())
	fmt.Fprintf(stdout, "brain listens on %s\n%s %s\nconnect with: executor run --brain ws://%s/executor --token-file %s%s\n",
		listener.Addr(), what, tokenFile, addr, tokenFile, further)
	if s.issuer != nil {
		fmt.Fprintf(stdout, "or with tokens that end: executor run --base-url http://%s --environment ID --environment-key-file %s%s\n", addr, o.environmentKeyFile, further)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		fmt.Fprintf(stdout, "from another machine: --brain wss://HOST/executor through what does TLS in front, or ws://HOST:%d/executor with --insecure; HOST is this one's name\n", tcp.Port)
		log.Warn("others on the network can read the token and everything else on the way; put TLS in front, or listen on 127.0.0.1")
	}
	var dialling sync.WaitGroup
	defer dialling.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, url := range o.dial {
		dialling.Go(func() { s.dial(ctx, url, token) })
	}
	return s.run(ctx, listener, control)
}

// dialAddress is where an executor on this machine dials a brain that listens at addr:
// one that listens everywhere is found at the loopback address of the same family.
// further is the flag without which the executor refuses an address of the network.
func dialAddress(listen string, addr net.Addr) (dial, further string) {
	tcp, ok := addr.(*net.TCPAddr)
	switch {
	case !ok || tcp.IP.IsLoopback():
		return addr.String(), ""
	case !tcp.IP.IsUnspecified():
		return addr.String(), " --insecure"
	}
	loopback := "127.0.0.1" // the address that was got is [::] for an IPv4 one too
	host, _, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		loopback = "::1"
	}
	return net.JoinHostPort(loopback, strconv.Itoa(tcp.Port)), ""
}

// server is the brain with what is around it.
type server struct {
	brain   *brain.Brain
	token   [sha256.Size]byte
	issuer  *brain.Issuer // nil: no exchange
	log     *zap.Logger
	started time.Time
	watch   *watch
	ending  context.Context // done when clients are sent away
	end     context.CancelFunc
}

func newServer(token string, log *zap.Logger) *server {
	s := &server{token: sha256.Sum256([]byte(token)), log: log, started: time.Now(), watch: newWatch()}
	s.ending, s.end = context.WithCancel(context.Background())
	s.brain = brain.New(brain.Options{
		Authenticate: s.authenticate,
		OnExecutor:   func(*brain.Executor, bool) { s.watch.changed() },
		OnWake: func(p protocol.SessionWakeParams) error {
			log.Info("session wants attention", zap.String("session", p.SessionID), zap.String("source", p.Source), zap.String("wake", p.WakeID))
			return nil
		},
		Logger: log.Named("brain"),
	})
	return s
}

// run serves both listeners until ctx is done, then closes everything. Executors
// are told 1001, so that they come back.
func (s *server) run(ctx context.Context, public, control net.Listener) error {
	publicHTTP := &http.Server{Handler: s.publicHandler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: zap.NewStdLog(s.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel)))}
	limit := &cli.Limit{Max: cli.MaxControlConns}
	controlHTTP := limit.Guard(&http.Server{Handler: s.controlHandler(), ReadHeaderTimeout: 10 * time.Second})
	ended := make(chan error, 2)
	go func() { ended <- publicHTTP.Serve(public) }()
	go func() { ended <- controlHTTP.Serve(limit.Listen(control)) }()
	var err error
	waiting := 2
	select {
	case <-ctx.Done():
		s.log.Info("brain ends, executors are told to come back")
	case err = <-ended:
		waiting--
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	s.end()
	_ = public.Close() // nobody comes while those that are here are sent away
	_ = s.brain.Shutdown(ending)
	_ = controlHTTP.Shutdown(ending) // answers of calls that were cut short
	_ = publicHTTP.Close()
	for range waiting {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *server) publicHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/executor", s.brain)
	mux.HandleFunc("GET /{$}", s.page)
	if s.issuer != nil {
		mux.Handle(brain.ExchangePattern, s.issuer)
	}
	return mux
}

// authenticate compares tokens in constant time. Who has the token may have any
// executor's id.
func (s *server) authenticate(r *http.Request) (brain.Principal, error) {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(given))
	if !ok || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
		if s.issuer != nil {
			return s.issuer.Authenticate(r)
		}
		return brain.Principal{}, protocol.Errorf(protocol.CodeUnauthorized, "the token is not this brain's")
	}
	return brain.Principal{Name: "token"}, nil
}
