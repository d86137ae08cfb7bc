package shell

import (
	"fmt"
	"strings"
)

// words is the text block of a result, put together from the output and lines about the command.
type words struct{ strings.Builder }

// section begins on a line of its own.
func (w *words) section(text string) {
	if w.Len() > 0 && text != "" && !strings.HasSuffix(w.String(), "\n") {
		w.WriteByte('\n')
	}
	w.WriteString(text)
}

func (w *words) note(format string, args ...any) {
	w.section("[" + fmt.Sprintf(format, args...) + "]\n")
}

// damage says what the output does not show as it was.
func (w *words) damage(invalid, nuls int64) {
	if invalid > 0 {
		w.note("%d bytes of the output were not UTF-8 and are shown as U+FFFD", invalid)
	}
	if nuls > 0 {
		w.note("%d NUL bytes of the output were removed", nuls)
	}
}

// spill says what is missing in the file of the whole output.
func (w *words) spill(c *capture) {
	switch state := c.file.State(); {
	case state.Err != nil:
		w.note("the whole output could not be kept: %v", state.Err)
	case state.Lost > 0:
		w.note("%s holds the first %d bytes of the output; %d more were not kept", c.spillPath, state.Written, state.Lost)
	}
}

func (w *words) list(what string, entries []string) {
	for i, entry := range entries {
		if i == listed {
			w.note("and %d more", len(entries)-listed)
			break
		}
		w.note("%s: %s", what, entry)
	}
}

func (w *words) background(processes []processEntry) {
	var entries []string
	for _, p := range processes {
		entries = append(entries, fmt.Sprintf("pid %d, %s", p.PID, brief(p.Command)))
	}
	w.list("still running in the background", entries)
}

func (w *words) survivors(survivors []survivorEntry) {
	var entries []string
	for _, s := range survivors {
		entries = append(entries, fmt.Sprintf("pid %d, %s: %s", s.PID, brief(s.Command), s.Reason))
	}
	w.list("could not be ended", entries)
}

// brief keeps the list of processes within the bytes for notes.
func brief(command string) string {
	if r := []rune(command); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return command
}
