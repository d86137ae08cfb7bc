package files

import (
	"bytes"
	"sort"
	"strings"

	"github.com/agent-executor/executor/protocol"
)

// span is a piece of a file's content.
type span struct{ start, end int }

var crlf = []byte("\r\n")

// matches finds old in content, from left to right, none overlapping another. A file
// is shown with its line ends made alike, so a newline in old stands for either kind;
// with a carriage return of its own old means its bytes and nothing else.
func matches(content []byte, old string) []span {
	if strings.Contains(old, "\n") && !strings.Contains(old, "\r") {
		switch pairs := bytes.Count(content, crlf); pairs {
		case 0:
		case bytes.Count(content, newline):
			return exact(content, strings.ReplaceAll(old, "\n", "\r\n"))
		default:
			return mixed(content, old)
		}
	}
	return exact(content, old)
}

func exact(content []byte, old string) []span {
	var all []span
	for at, wanted := 0, []byte(old); ; {
		i := bytes.Index(content[at:], wanted)
		if i < 0 {
			return all
		}
		all = append(all, span{at + i, at + i + len(wanted)})
		at += i + len(wanted)
	}
}

// mixed looks for old where both kinds of line ends stand side by side: in a copy that
// has only one, from which it finds back.
func mixed(content []byte, old string) []span {
	alike := make([]byte, 0, len(content))
	var dropped []int // where in alike the newlines are that lost a carriage return
	for at := 0; ; {
		i := bytes.Index(content[at:], crlf)
		if i < 0 {
			alike = append(alike, content[at:]...)
			break
		}
		alike = append(alike, content[at:at+i]...)
		dropped = append(dropped, len(alike))
		alike = append(alike, '\n')
		at += i + len(crlf)
	}
	all := exact(alike, old)
	for i, m := range all {
		all[i] = span{m.start + sort.SearchInts(dropped, m.start), m.end + sort.SearchInts(dropped, m.end)}
	}
	return all
}

// maxResult bounds what an edit makes of a file, in bytes.
const maxResult = 256 << 20

// replace puts text in place of every match and says what has changed. The newlines
// in text become what the line ends there are, unless old has carriage returns of its
// own.
func replace(content []byte, at []span, old, text string) ([]byte, []change, error) {
	if int64(len(content))+int64(len(at))*int64(len(text)-len(old)) > maxResult {
		return nil, nil, protocol.Errorf(protocol.CodePayloadTooLarge, "the file would have more than %s bytes", count(maxResult))
	}
	adapt := strings.Contains(text, "\n") && !strings.Contains(old, "\r") && bytes.Contains(content, crlf)
	out := make([]byte, 0, len(content)+len(at)*max(0, len(text)-len(old)))
	changes := make([]change, 0, len(at))
	done := 0
	for _, m := range at {
		out = append(out, content[done:m.start]...)
		start := len(out)
		if adapt {
			out = appendLines(out, text, lineEnds(content, m))
		} else {
			out = append(out, text...)
		}
		changes = append(changes, change{m.start, m.end, start, len(out)})
		done = m.end
	}
	return append(out, content[done:]...), changes, nil
}

// lineEnds says for each line end of a match whether it has a carriage return, and
// for a match without any what the line has that it ends in, or else the one before.
func lineEnds(content []byte, m span) (returns []bool) {
	returned := func(i int) bool { return i > 0 && content[i-1] == '\r' }
	for at := m.start; at < m.end; {
		i := bytes.IndexByte(content[at:m.end], '\n')
		if i < 0 {
			break
		}
		returns = append(returns, returned(at+i))
		at += i + 1
	}
	if len(returns) > 0 {
		return returns
	}
	if i := bytes.IndexByte(content[m.end:], '\n'); i >= 0 {
		return []bool{returned(m.end + i)}
	}
	if i := bytes.LastIndexByte(content[:m.start], '\n'); i >= 0 {
		return []bool{returned(i)}
	}
	return []bool{false}
}

// appendLines gives each newline of text that has no carriage return the one that its
// fellow has; those beyond have what the last one has.
func appendLines(out []byte, text string, returns []bool) []byte {
	for n := 0; ; n++ {
		i := strings.IndexByte(text, '\n')
		if i < 0 {
			return append(out, text...)
		}
		out = append(out, text[:i]...)
		if returns[min(n, len(returns)-1)] && !strings.HasSuffix(text[:i], "\r") {
			out = append(out, '\r')
		}
		out = append(out, '\n')
		text = text[i+1:]
	}
}
