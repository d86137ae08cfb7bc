package files

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/agent-executor/executor/capabilities"
)

// fit cuts a text to its head and tail when it is longer than a result may be, less
// so many bytes that stand beside it. The whole of it goes to a file.
func (f *Files) fit(call *capabilities.Call, text string, beside int) (shown string, cut bool) {
	limit := f.opts.MaxTextBytes - beside
	if len(text) <= limit {
		return text, false
	}
	where := "it could not be kept"
	if path, err := spill(call, text); err == nil {
		where = "it is in " + path
	}
	half := (limit - 256 - len(where)) / 2
	from, to := max(half, 0), min(len(text)-half, len(text))
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return fmt.Sprintf("%s\n[… %d bytes of %d are missing here; %s …]\n%s", text[:from], to-from, len(text), where, text[to:]), true
}

func spill(call *capabilities.Call, text string) (path string, err error) {
	file, path, err := call.Spill()
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(file, text)
	return path, err
}
