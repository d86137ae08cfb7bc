package main

import (
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/cmd/internal/cli"
)

// signalActions are what the first, second and third signal do.
type signalActions struct {
	drain, cancel func()
	exit          func(code int)
}

// catchSignals keeps SIGTERM and SIGINT for onSignals: one that comes while the program
// starts ends it in good order too.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// onSignals handles signals until stop is called.
func onSignals(signals chan os.Signal, log *zap.Logger, do signalActions) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		handleSignals(signals, log, do)
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

func handleSignals(signals <-chan os.Signal, log *zap.Logger, do signalActions) {
	n := 0
	for s := range signals {
		n++
		name := zap.String("signal", s.String())
		switch n {
		case 1:
			log.Info("finishing what runs; another signal cancels it", name)
			do.drain()
		case 2:
			log.Warn("cancelling what runs; another signal ends the program at once", name)
			do.cancel()
		default:
			log.Error("ending at once", name)
			_ = cli.SyncLogger(log)
			do.exit(cli.ExitFailed)
		}
	}
}
