package shell

import (
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

const (
	// noteBytes of a result are for the lines about the command; the rest is its output.
	noteBytes = 2 << 10
	// listed is how many processes are listed at most.
	listed = 8
)

// bashResult is the structured result.
type bashResult struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// ExitCode is 128 plus the signal's number when a signal ended the command, and null when the
	// executor ended it.
	ExitCode   *int   `json:"exit_code"`
	ExitSignal string `json:"exit_signal,omitempty"`
	TimedOut   bool   `json:"timed_out"`
	DurationMS int64  `json:"duration_ms"`
	Truncated  bool   `json:"truncated"`
	// OutputFile holds the raw output, both streams in order of arrival, when it was long.
	OutputFile   string          `json:"output_file,omitempty"`
	InvalidBytes int64           `json:"invalid_bytes,omitempty"`
	NULBytes     int64           `json:"nul_bytes,omitempty"`
	Background   []processEntry  `json:"background"`
	Survivors    []survivorEntry `json:"survivors"`
}

type processEntry struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

type survivorEntry struct {
	processEntry
	Reason string `json:"reason"`
}

// report gathers what a command prints and makes the result of it. Its sinks run on two goroutines,
// which have ended when output is called.
type report struct {
	*capture
	stdout    *stream.Output
	stderr    *stream.Output
	exit      spawn.Exit
	end       ending
	duration  time.Duration
	survivors []spawn.Survivor
}

func newReport(call *capabilities.Call, o Options) *report {
	c := newCapture(call, o)
	return &report{capture: c, stdout: c.stream(), stderr: c.stream()}
}

func (r *report) sink(name string) spawn.Sink {
	to := r.stdout
	if name == protocol.StreamStderr {
		to = r.stderr
	}
	return r.capture.sink(name, to)
}

// output is the result for the model, in words and in fields.
func (r *report) output() protocol.ToolOutput {
	out, err := r.views()
	result := bashResult{
		ExitSignal: r.exit.Signal,
		TimedOut:   r.end == timedOut,
		DurationMS: r.duration.Milliseconds(),
		Truncated:  out.Omitted+err.Omitted > 0,
		OutputFile: r.spillPath,
		Background: []processEntry{},
		Survivors:  []survivorEntry{},
	}
	if r.end == exited {
		result.ExitCode = &r.exit.Code
	} else {
		result.ExitSignal = ""
	}
	result.InvalidBytes, result.NULBytes = damage(r.stdout, r.stderr)
	if r.end == exited { // else what is left is a survivor
		result.Background = entriesOf(r.exit.Background)
	}
	result.Survivors = survivorsOf(r.survivors)
	result.Stdout = out.Text(r.omission(out, "stdout"))
	result.Stderr = err.Text(r.omission(err, "stderr"))
	return protocol.ToolOutput{
		Content:    protocol.Text(r.words(result)).Content,
		Structured: result,
		IsError:    r.end == exited && (r.exit.Code != 0 || r.exit.Signal != ""),
	}
}

// views shares the limit between the two streams: a third is stderr's when both are long, and what one
// does not need is the other's.
func (r *report) views() (out, err stream.View) {
	third := r.limit / 3
	forErr := int(min(r.stderr.Len(), int64(max(third, r.limit-int(min(r.stdout.Len(), int64(r.limit)))))))
	return r.stdout.View(r.limit - forErr), r.stderr.View(forErr)
}

// words is the text block: what was printed, and below it what is to be known about the command. It
// ends with how the command ended, since an end survives every cut.
func (r *report) words(result bashResult) string {
	var w words
	w.section(result.Stdout)
	if result.Stderr != "" {
		if result.Stdout != "" {
			w.section("[stderr]\n")
		}
		w.section(result.Stderr)
	}
	w.damage(result.InvalidBytes, result.NULBytes)
	w.spill(r.capture)
	w.background(result.Background)
	w.survivors(result.Survivors)
	switch {
	case r.end == timedOut:
		w.note("timed out after %d ms; the command was ended", result.DurationMS)
	case r.end == canceled:
		w.note("canceled after %d ms; the command was ended", result.DurationMS)
	case r.exit.Lost:
		w.note("the exit status was lost")
	case r.exit.Signal != "":
		w.note("ended by %s, exit code %d", r.exit.Signal, r.exit.Code)
	case r.exit.Code != 0:
		w.note("exit code %d", r.exit.Code)
	case w.Len() == 0:
		w.note("no output, exit code 0")
	}
	return w.String()
}
