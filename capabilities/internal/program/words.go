package program

import (
	"fmt"
	"strings"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// listed is how many processes are named in words at most, and listedFields how many
// in fields.
const (
	listed       = 8
	listedFields = 64
)

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

// Background makes entries of the processes that a program left running; never nil.
func Background(members []spawn.Member) []Process {
	entries := []Process{}
	for _, m := range members[:min(len(members), listedFields)] {
		entries = append(entries, Process{m.PID, m.Command})
	}
	return entries
}

// Survivors makes entries of the processes that could not be ended; never nil.
func Survivors(survivors []spawn.Survivor) []Survivor {
	entries := []Survivor{}
	for _, s := range survivors {
		entries = append(entries, Survivor{Process{s.PID, s.Command}, s.Reason})
	}
	return entries
}

// Words is the text block of a result, put together from the output and lines about the
// program. The zero value is ready.
type Words struct{ strings.Builder }

// Section begins on a line of its own.
func (w *Words) Section(text string) {
	if w.Len() > 0 && text != "" && !strings.HasSuffix(w.String(), "\n") {
		w.WriteByte('\n')
	}
	w.WriteString(text)
}

// Note adds a line about the program.
func (w *Words) Note(format string, args ...any) {
	w.Section("[" + fmt.Sprintf(format, args...) + "]\n")
}

// Damage says what the output does not show as it was.
func (w *Words) Damage(invalid, nuls int64) {
	if invalid > 0 {
		w.Note("%d bytes of the output were not UTF-8 and are shown as U+FFFD", invalid)
	}
	if nuls > 0 {
		w.Note("%d NUL bytes of the output were removed", nuls)
	}
}

// Spill says what is missing in the file of the whole output.
func (w *Words) Spill(s *Streams) {
	switch state := s.file.State(); {
	case state.Err != nil:
		w.Note("the whole output could not be kept: %v", state.Err)
	case state.Lost > 0:
		w.Note("%s holds the first %d bytes of the output; %d more were not kept", s.path, state.Written, state.Lost)
	}
}

// Background names what was left running.
func (w *Words) Background(processes []Process) {
	var entries []string
	for _, p := range processes {
		entries = append(entries, fmt.Sprintf("pid %d, %s", p.PID, Brief(p.Command)))
	}
	w.list("still running in the background", entries)
}

// Survivors names what could not be ended, and why.
func (w *Words) Survivors(survivors []Survivor) {
	var entries []string
	for _, s := range survivors {
		entries = append(entries, fmt.Sprintf("pid %d, %s: %s", s.PID, Brief(s.Command), s.Reason))
	}
	w.list("could not be ended", entries)
}

func (w *Words) list(what string, entries []string) {
	for i, entry := range entries {
		if i == listed {
			w.Note("and %d more", len(entries)-listed)
			break
		}
		w.Note("%s: %s", what, entry)
	}
}

// Brief keeps the list of processes within the bytes for notes.
func Brief(command string) string {
	if r := []rune(command); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return command
}
