package files

import (
	"fmt"
	"io"
	"strconv"

	"github.com/agent-executor/executor/protocol"
)

// notes is what is to be known about the lines that are shown.
type notes struct {
	invalid, nuls        int
	crlf, cut            int
	longest, longestLine int64
	unending, damaged    bool
}

func (f *Files) about(w io.Writer, n notes, out readOutput, in readInput) {
	if n.cut > 0 {
		how := fmt.Sprintf("cut at %s characters; full shows up to %s bytes", count(f.opts.MaxLineChars), count(f.opts.MaxFullBytes))
		if in.Full {
			how = fmt.Sprintf("cut; a command as `sed -n %dp FILE | cut -c 1-2000` shows parts of it", n.longestLine)
		}
		fmt.Fprintf(w, "[%s %s; the longest is line %s with %s characters]\n", plural(int64(n.cut), "line"), how, count(n.longestLine), count(n.longest))
	}
	switch out.Encoding {
	case utf8BOM:
		fmt.Fprintln(w, "[begins with a UTF-8 byte order mark]")
	case utf16LE, utf16BE:
		if n.damaged {
			fmt.Fprintf(w, "[the file is %s with characters that are damaged, and cannot be edited; write would make it UTF-8]\n", out.Encoding)
		} else {
			fmt.Fprintf(w, "[the file is %s; edit keeps it so, write would make it UTF-8]\n", out.Encoding)
		}
	case notUTF8Text:
		fmt.Fprintf(w, "[not UTF-8, Latin-1 perhaps: %s shown as U+FFFD]\n", plural(int64(n.invalid), "byte"))
	}
	if n.nuls > 0 {
		fmt.Fprintf(w, "[%s shown as U+FFFD]\n", plural(int64(n.nuls), "NUL character"))
	}
	if n.crlf > 0 {
		fmt.Fprintf(w, "[%s with CRLF]\n", plural(int64(n.crlf), "line end"))
	}
	if n.unending {
		fmt.Fprintln(w, "[no newline at the end]")
	}
}

func output(structured any, text string) protocol.ToolOutput {
	o := protocol.Text(text)
	o.Structured = structured
	return o
}

// count writes a number with its thousands apart.
func count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}
