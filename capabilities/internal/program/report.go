package program

import (
	"fmt"

	"github.com/agent-executor/executor/capabilities/internal/stream"
)

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

// Report makes the result. hide, if any, changes what was printed before it is shown, to leave a secret out.
func (r *Run) Report(hide func(string) string) Report {
	out, err := r.views()
	report := Report{
		TimedOut:   r.End == TimedOut,
		DurationMS: r.Duration.Milliseconds(),
		Truncated:  out.Omitted+err.Omitted > 0,
		OutputFile: r.streams.Path(),
		Background: []Process{},
		Survivors:  Survivors(r.Survivors),
		run:        r,
	}
	report.InvalidBytes, report.NULBytes = Damage(r.stdout, r.stderr)
	if r.End == Exited { // else what is left is a survivor
		code := r.Exit.Code
		report.ExitCode, report.ExitSignal = &code, r.Exit.Signal
		report.Background = Background(r.Exit.Background)
	}
	report.Stdout = out.Text(r.streams.Omission(out, "stdout"))
	report.Stderr = err.Text(r.streams.Omission(err, "stderr"))
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
	limit := r.streams.Limit
	rest := limit - int(min(r.stdout.Len(), int64(limit)))
	forErr := int(min(r.stderr.Len(), int64(max(limit/3, rest))))
	return r.stdout.View(limit - forErr), r.stderr.View(forErr)
}

// Words is the text block: what was printed, and below it what is to be known about the run. It ends with
// how the program ended, since an end survives every cut.
func (p *Report) Words() string {
	r := p.run
	var w Words
	w.Section(p.Stdout)
	if p.Stderr != "" {
		if p.Stdout != "" {
			w.Section("[stderr]\n")
		}
		w.Section(p.Stderr)
	}
	w.Damage(p.InvalidBytes, p.NULBytes)
	w.Spill(r.streams)
	for _, text := range p.notes {
		w.Note("%s", text)
	}
	w.Background(p.Background)
	w.Survivors(p.Survivors)
	switch {
	case r.End == TimedOut:
		w.Note("timed out after %d ms; the %s was ended", p.DurationMS, r.noun)
	case r.End == Canceled:
		w.Note("canceled after %d ms; the %s was ended", p.DurationMS, r.noun)
	case r.Exit.Lost:
		w.Note("the exit status was lost")
	case r.Exit.Signal != "":
		w.Note("ended by %s, exit code %d", r.Exit.Signal, r.Exit.Code)
	case r.Exit.Code != 0:
		w.Note("exit code %d", r.Exit.Code)
	case w.Len() == 0:
		w.Note("no output, exit code 0")
	}
	return w.String()
}
