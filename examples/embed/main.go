// Embed is a program of one's own in which an executor runs beside everything else.
//
//	EXECUTOR_TOKEN=secret go run ./examples/embed -url ws://127.0.0.1:8080/executor
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/agent-executor/executor/capabilities/files"
	"github.com/agent-executor/executor/capabilities/shell"
	"github.com/agent-executor/executor/executor"
)

// lendHands makes this machine the hands of the brain at url, until ctx is done or
// the brain has no more work.
func lendHands(ctx context.Context, url string, token func(context.Context) (string, error)) error {
	// [start embed]
	ex, err := executor.New(executor.Options{URL: url, Token: token})
	if err != nil {
		return err
	}
	if err := ex.Register(shell.New(shell.Options{}), files.New(files.Options{})); err != nil {
		return err
	}
	return ex.Run(ctx)
	// [end embed]
}

func main() {
	url := flag.String("url", os.Getenv("EXECUTOR_URL"), "URL of the brain")
	flag.Parse()
	token := func(context.Context) (string, error) { return os.Getenv("EXECUTOR_TOKEN"), nil }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	hands := make(chan error, 1)
	go func() { hands <- lendHands(ctx, *url, token) }()

	fmt.Println("the program goes on with its own work")

	if err := <-hands; err != nil {
		log.Fatal(err)
	}
	fmt.Println("the brain has no more work")
}
