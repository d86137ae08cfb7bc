package shell

import (
	"fmt"
	"io"
	"strings"
	"sync"
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
	// liveBytes of output are sent in a second while the command runs.
	liveBytes = 64 << 10
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
	call      *capabilities.Call
	limit     int
	stdout    *stream.Output
	stderr    *stream.Output
	spill     *stream.Spill
	spillPath string // set under the spill's lock, read after the end
	live      limiter
	exit      spawn.Exit
	end       ending
	duration  time.Duration
	survivors []spawn.Survivor
}

func newReport(call *capabilities.Call, o Options) *report {
	r := &report{call: call, limit: o.InlineBytes - noteBytes}
	r.spill = stream.NewSpill(r.limit, o.SpillBytes, func() (io.Writer, error) {
		f, path, err := call.Spill()
		r.spillPath = path
		return f, err
	})
	r.stdout = stream.NewOutput(r.limit, r.spill)
	r.stderr = stream.NewOutput(r.limit, r.spill)
	return r
}

func (r *report) sink(name string) spawn.Sink {
	to := r.stdout
	if name == protocol.StreamStderr {
		to = r.stderr
	}
	return func(p []byte) {
		if len(p) == 0 {
			_ = to.Close()
			return
		}
		_, _ = to.Write(p)
		if r.live.take(len(p)) {
			r.call.Output(name, p)
		}
	}
}

// limiter lets some bytes through in each second: what is shown live must not crowd out the connection.
type limiter struct {
	mu     sync.Mutex
	second time.Time
	used   int
}

func (l *limiter) take(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.second) >= time.Second {
		l.second, l.used = now, 0
	}
	if l.used+n > liveBytes {
		return false
	}
	l.used += n
	return true
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
	for _, o := range []*stream.Output{r.stdout, r.stderr} {
		invalid, nuls := o.Damage()
		result.InvalidBytes += invalid
		result.NULBytes += nuls
	}
	if r.end == exited { // else what is left is a survivor
		for _, m := range r.exit.Background[:min(len(r.exit.Background), 64)] {
			result.Background = append(result.Background, processEntry{m.PID, m.Command})
		}
	}
	for _, s := range r.survivors {
		result.Survivors = append(result.Survivors, survivorEntry{processEntry{s.PID, s.Command}, s.Reason})
	}
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

func (r *report) omission(v stream.View, name string) string {
	note := fmt.Sprintf("[… %d of %d bytes of %s omitted", v.Omitted, v.Total, name)
	if r.spillPath != "" {
		note += "; the whole output: " + r.spillPath
	}
	return note + " …]"
}

// words is the text block: what was printed, and below it what is to be known about the command. It
// ends with how the command ended, since an end survives every cut.
func (r *report) words(result bashResult) string {
	var b strings.Builder
	section := func(text string) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	section(result.Stdout)
	if result.Stderr != "" {
		if result.Stdout != "" {
			section("[stderr]\n")
		}
		section(result.Stderr)
	}
	note := func(format string, args ...any) { section("[" + fmt.Sprintf(format, args...) + "]\n") }
	if result.InvalidBytes > 0 {
		note("%d bytes of the output were not UTF-8 and are shown as U+FFFD", result.InvalidBytes)
	}
	if result.NULBytes > 0 {
		note("%d NUL bytes of the output were removed", result.NULBytes)
	}
	switch state := r.spill.State(); {
	case state.Err != nil:
		note("the whole output could not be kept: %v", state.Err)
	case state.Lost > 0:
		note("%s holds the first %d bytes of the output; %d more were not kept", result.OutputFile, state.Written, state.Lost)
	}
	list := func(what string, entries []string) {
		for i, entry := range entries {
			if i == listed {
				note("and %d more", len(entries)-listed)
				break
			}
			note("%s: %s", what, entry)
		}
	}
	var entries []string
	for _, p := range result.Background {
		entries = append(entries, fmt.Sprintf("pid %d, %s", p.PID, brief(p.Command)))
	}
	list("still running in the background", entries)
	entries = nil
	for _, s := range result.Survivors {
		entries = append(entries, fmt.Sprintf("pid %d, %s: %s", s.PID, brief(s.Command), s.Reason))
	}
	list("could not be ended", entries)

	switch {
	case r.end == timedOut:
		note("timed out after %d ms; the command was ended", result.DurationMS)
	case r.end == canceled:
		note("canceled after %d ms; the command was ended", result.DurationMS)
	case r.exit.Lost:
		note("the exit status was lost")
	case r.exit.Signal != "":
		note("ended by %s, exit code %d", r.exit.Signal, r.exit.Code)
	case r.exit.Code != 0:
		note("exit code %d", r.exit.Code)
	case b.Len() == 0:
		note("no output, exit code 0")
	}
	return b.String()
}

// brief keeps the list of processes within the bytes for notes.
func brief(command string) string {
	if r := []rune(command); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return command
}
