// Own-brain is a brain of one's own: it waits for an executor, has one tool called
// there, prints the result as one JSON line, sends the executor home and ends.
//
//	BRAIN_TOKEN=a-secret-of-16-characters-or-more go run ./examples/own-brain -listen 127.0.0.1:8080 bash '{"command":"uname -a"}'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	keep := flag.String("results", "", "file to keep results in (default: in memory)")
	flag.Parse()
	b := brain.New(brain.Options{Authenticate: authenticate, Results: openResults(*keep)})
	l, err := net.Listen("tcp", *listen)
	check(err)
	log.Printf("ws://%s/executor", l.Addr())
	go http.Serve(l, b)

	ctx := context.Background()
	x, err := b.WaitExecutor(ctx)
	check(err)
	s, err := x.Assign(ctx, protocol.SessionAssignParams{}) // returns when it is ready
	check(err)
	result, err := s.Call(ctx, flag.Arg(0), json.RawMessage(flag.Arg(1)))
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(result))
	check(s.Stop(ctx, "the work is done"))
	_, err = brain.Do(ctx, x, protocol.ExecutorDrain, protocol.DrainParams{Reason: "no more work"})
	if !errors.Is(err, rpc.ErrClosed) { // which says that it left before it answered
		check(err)
	}
	check(b.Close("the work is done"))
}

func authenticate(r *http.Request) (brain.Principal, error) {
	if token := os.Getenv("BRAIN_TOKEN"); token == "" || r.Header.Get("Authorization") != "Bearer "+token {
		return brain.Principal{}, protocol.ErrUnauthorized
	}
	return brain.Principal{Name: "the only one"}, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
