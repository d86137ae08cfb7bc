package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal is a context that ends with the first SIGINT or SIGTERM; a second one ends
// the process at once. To write to a standard output that nobody reads any more is an
// error until the function is called, and not the end of the process.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, func() {
		stop()
		signal.Stop(broken)
	}
}

// ReaderGone says whether w is a pipe or socket that nobody reads any more; false also
// when that cannot be known.
func ReaderGone(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && readerGone(f)
}
