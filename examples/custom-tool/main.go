// Custom-tool is an executor with one tool, and that is its own.
//
//	EXECUTOR_TOKEN=secret go run ./examples/custom-tool -url ws://127.0.0.1:8080/executor
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor"
	"github.com/agent-executor/executor/protocol"
)

// greetInput is the tool's input. Its JSON Schema is made from it and advertised;
// what does not fit is refused before greet is called.
//
// [start tool]
type greetInput struct {
	Name string `json:"name" jsonschema:"whom to greet"`
	Loud bool   `json:"loud,omitempty" jsonschema:"in capital letters"`
}

func greet(_ context.Context, _ *capabilities.Call, in greetInput) (protocol.ToolOutput, error) {
	text := "Hello, " + in.Name + "!"
	if in.Loud {
		text = strings.ToUpper(text)
	}
	return protocol.Text(text), nil
}

// [end tool]

func main() {
	url := flag.String("url", os.Getenv("EXECUTOR_URL"), "URL of the brain")
	flag.Parse()

	ex, err := executor.New(executor.Options{
		URL:   *url,
		Token: func(context.Context) (string, error) { return os.Getenv("EXECUTOR_TOKEN"), nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := ex.Register(capabilities.Func("greet", "Greet somebody by name.", greet)); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := ex.Run(ctx); err != nil { // nil: interrupted, or the brain has sent it home
		log.Fatal(err)
	}
}
