package shell

import (
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/program"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// noteBytes of a result are for the lines about the command; the rest is its output.
const noteBytes = program.NoteBytes

// report gathers what a command prints and makes the result of it. Its sinks run on two goroutines,
// which have ended when output is called.
type report struct {
	run       *program.Run
	exit      spawn.Exit
	end       ending
	duration  time.Duration
	survivors []spawn.Survivor
}

func newReport(call *capabilities.Call, o Options) *report {
	return &report{run: program.NewRun("command", newStreams(call, o))}
}

// newStreams is what takes the output of a call.
func newStreams(call *capabilities.Call, o Options) *program.Streams {
	return program.NewStreams(call, o.InlineBytes, o.SpillBytes, true)
}

func (r *report) sink(name string) spawn.Sink { return r.run.Sink(name) }

// output is the result for the model, in words and in fields.
func (r *report) output() protocol.ToolOutput {
	r.run.End, r.run.Exit, r.run.Duration, r.run.Survivors = program.Ending(r.end), r.exit, r.duration, r.survivors
	result := r.run.Report(nil)
	return protocol.ToolOutput{Content: protocol.Text(result.Words()).Content, Structured: result, IsError: result.Failed()}
}
