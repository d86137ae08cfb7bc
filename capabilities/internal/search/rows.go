package search

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// rows are the lines of one file that are shown, as they are found in its blocks. Places
// are those of the current block.
type rows struct {
	opts    GrepOptions
	wanted  bool // rows are kept at all
	matches int  // in the file
	kept    int  // matches in all
	size    int  // bytes of all
	long    int  // pieces of lines that were too long
	all     []Row

	number  int // of the line at counted, from 1
	counted int
	shown   int // what is before is in all already, or has been passed by
	pending int // lines behind the last match that are still to be shown
}

func (r *rows) reset(o GrepOptions, wanted bool) {
	*r = rows{opts: o, wanted: wanted, all: r.all[:0], number: 1}
}

// wants says whether the next match is shown.
func (r *rows) wants() bool {
	return r.wanted && (r.opts.Limit <= 0 || r.kept < r.opts.Limit) && (r.opts.MaxText <= 0 || r.size < r.opts.MaxText)
}

// match adds the lines from..to of the block b, of which line is shown, and those before.
func (r *rows) match(b []byte, from, to int, line []byte, span []int) {
	r.after(b, from)
	before := from
	for range r.opts.Context {
		if before <= r.shown {
			break
		}
		before = bytes.LastIndexByte(b[r.shown:before-1], '\n') + 1 + r.shown
	}
	for before < from {
		before = r.context(b, before)
	}
	if span == nil {
		span = []int{0, 0}
	}
	text, cut := r.text(line, span[0])
	r.all = append(r.all, Row{Line: r.lineAt(b, from), Column: span[0] + 1, Text: text, Cut: cut})
	r.kept++
	r.size += len(text)
	r.shown = min(to+1, len(b))
	r.pending = r.opts.Context
}

// after adds the lines behind the last match as far as they are before to.
func (r *rows) after(b []byte, to int) {
	for r.pending > 0 && r.shown < to {
		r.shown = r.context(b, r.shown)
		r.pending--
	}
}

// context adds the line at from and returns where the next one begins.
func (r *rows) context(b []byte, from int) int {
	to, next := len(b), len(b)
	if i := bytes.IndexByte(b[from:], '\n'); i >= 0 {
		to, next = from+i, from+i+1
	}
	text, cut := r.text(b[from:to], 0)
	r.all = append(r.all, Row{Line: r.lineAt(b, from), Text: text, Cut: cut})
	r.size += len(text)
	return next
}

func (r *rows) lineAt(b []byte, at int) int {
	r.number += bytes.Count(b[r.counted:at], []byte{'\n'})
	r.counted = at
	return r.number
}

// carry returns from where on the block b is needed as context of the next one, and moves
// its places along.
func (r *rows) carry(b []byte, end int) (keep int) {
	keep = end
	for range r.opts.Context {
		if keep <= r.shown || end-keep > maxContextBytes {
			break
		}
		keep = bytes.LastIndexByte(b[r.shown:keep-1], '\n') + 1 + r.shown
	}
	if end-keep > maxContextBytes {
		keep = end
	}
	r.lineAt(b, keep)
	r.counted = 0
	r.shown = max(r.shown-keep, 0)
	return keep
}

// text is what is shown of a line: all of it, or a part round the place at.
func (r *rows) text(line []byte, at int) (text string, cut bool) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	at = min(at, len(line))
	most := r.opts.MaxLine
	if len(line) > most { // a match of several lines may have some more
		most *= min(1+bytes.Count(line, []byte{'\n'}), 10)
	}
	if len(line) <= most {
		return plain(line), false
	}
	from := max(0, min(at-most/4, len(line)-most))
	for range utf8.UTFMax - 1 {
		if from == 0 || utf8.RuneStart(line[from]) {
			break
		}
		from++
	}
	to := min(from+most, len(line))
	for range utf8.UTFMax - 1 {
		if to == len(line) || utf8.RuneStart(line[to]) {
			break
		}
		to--
	}
	text = plain(line[from:to])
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text, true
}

// plain makes text of bytes: what is no UTF-8 becomes U+FFFD, and line ends are newlines.
func plain(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\r\n", "\n")
}
