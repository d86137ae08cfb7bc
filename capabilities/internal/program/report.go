package program

import (
	"fmt"
	"strings"

	"github.com/agent-executor/executor/capabilities/internal/stream"
)

// listed is how many processes are listed at most.
const listed = 8

// Report is the structured result of a run.
type Report struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// ExitCode is 128 plus the signal's number when a signal ended the program, and null when the executor
	// ended it.
	ExitCode   *int   `json:"exit_code"`
	ExitSignal string `json:"exit_signal,omitempty"`
	TimedOut   bool   `json:"timed_out"`
	DurationMS int64  `json:"duration_ms"`
	Truncated  bool   `json:"truncated"`
	// OutputFile holds the raw output, both streams in order of arrival, when it was long.
	OutputFile   string     `json:"output_file,omitempty"`
	InvalidBytes int64      `json:"invalid_bytes,omitempty"`
	NULBytes     int64      `json:"nul_bytes,omitempty"`
	Background   []Process  `json:"background"`
	Survivors    []Survivor `json:"survivors"`

	run   *Run
	notes []string
}

// Process is a process that the program left running.
type Process struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// Survivor is a process that could not be ended.
type Survivor struct {
	Process
	Reason string `json:"reason"`
}

// Report makes the result. hide, if any, changes what was printed before it is shown, to leave a secret out.
func (r *Run) Report(hide func(string) string) Report {
	out, err := r.views()
	report := Report{
		TimedOut:   r.End == TimedOut,
		DurationMS: r.Duration.Milliseconds(),
		Truncated:  out.Omitted+err.Omitted > 0,
		OutputFile: r.spillPath,
		Background: []Process{},
		Survivors:  []Survivor{},
		run:        r,
	}
	for _, o := range []*stream.Output{r.stdout, r.stderr} {
		invalid, nuls := o.Damage()
		report.InvalidBytes += invalid
		report.NULBytes += nuls
	}
	if r.End == Exited {
		code := r.Exit.Code
		report.ExitCode, report.ExitSignal = &code, r.Exit.Signal
		for _, m := range r.Exit.Background[:min(len(r.Exit.Background), 64)] {
			report.Background = append(report.Background, Process{m.PID, m.Command})
		}
	}
	for _, s := range r.Survivors {
		report.Survivors = append(report.Survivors, Survivor{Process{s.PID, s.Command}, s.Reason})
	}
	report.Stdout = out.Text(r.omission(out, "stdout"))
	report.Stderr = err.Text(r.omission(err, "stderr"))
	if hide != nil {
		report.Stdout, report.Stderr = hide(report.Stdout), hide(report.Stderr)
	}
	return report
}

// Note adds a line to the words.
func (p *Report) Note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// Failed says whether the program ended by itself, and not well.
func (p *Report) Failed() bool {
	return p.run.End == Exited && (p.run.Exit.Code != 0 || p.run.Exit.Signal != "")
}

// views shares the limit between the two streams: a third is stderr's when both are long, and what one does
// not need is the other's.
func (r *Run) views() (out, err stream.View) {
	limit := r.limits.InlineBytes - noteBytes
	rest := limit - int(min(r.stdout.Len(), int64(limit)))
	forErr := int(min(r.stderr.Len(), int64(max(limit/3, rest))))
	return r.stdout.View(limit - forErr), r.stderr.View(forErr)
}

func (r *Run) omission(v stream.View, name string) string {
	note := fmt.Sprintf("[… %d of %d bytes of %s omitted", v.Omitted, v.Total, name)
	if r.spillPath != "" {
		note += "; the whole output: " + r.spillPath
	}
	return note + " …]"
}

// Words is the text block: what was printed, and below it what is to be known about the run. It ends with
// how the program ended, since an end survives every cut.
func (p *Report) Words() string {
	r := p.run
	var b strings.Builder
	section := func(text string) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	section(p.Stdout)
	if p.Stderr != "" {
		if p.Stdout != "" {
			section("[stderr]\n")
		}
		section(p.Stderr)
	}
	note := func(format string, args ...any) { section("[" + fmt.Sprintf(format, args...) + "]\n") }
	if p.InvalidBytes > 0 {
		note("%d bytes of the output were not UTF-8 and are shown as U+FFFD", p.InvalidBytes)
	}
	if p.NULBytes > 0 {
		note("%d NUL bytes of the output were removed", p.NULBytes)
	}
	switch state := r.spill.State(); {
	case state.Err != nil:
		note("the whole output could not be kept: %v", state.Err)
	case state.Lost > 0:
		note("%s holds the first %d bytes of the output; %d more were not kept", p.OutputFile, state.Written, state.Lost)
	}
	for _, text := range p.notes {
		note("%s", text)
	}
	for i, left := range p.Background {
		if i == listed {
			note("and %d more", len(p.Background)-listed)
			break
		}
		note("still running in the background: pid %d, %s", left.PID, brief(left.Command))
	}
	for i, s := range p.Survivors {
		if i == listed {
			note("and %d more", len(p.Survivors)-listed)
			break
		}
		note("could not be ended: pid %d, %s: %s", s.PID, brief(s.Command), s.Reason)
	}
	switch {
	case r.End == TimedOut:
		note("timed out after %d ms; the program was ended", p.DurationMS)
	case r.End == Canceled:
		note("canceled after %d ms; the program was ended", p.DurationMS)
	case r.Exit.Lost:
		note("the exit status was lost")
	case r.Exit.Signal != "":
		note("ended by %s, exit code %d", r.Exit.Signal, r.Exit.Code)
	case r.Exit.Code != 0:
		note("exit code %d", r.Exit.Code)
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
