package search

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

const (
	// maxTable is how many transitions an automaton remembers before it forgets all and
	// begins anew, and maxThreads how many places in the program its states have: 4 MiB each.
	maxTable   = 1 << 20
	maxThreads = 1 << 20
	// An automaton that has gone through so many places to make its states, and through more for
	// each byte that was read than the standard library would, is no help. That begins a match at
	// each byte.
	muchWork   = 1 << 18
	workByByte = 2
	// maxInst is how many instructions of a program are worth an automaton.
	maxInst = 100_000
)

// Values of a transition that are no state.
const (
	unknown int32 = 0
	matched int32 = -1
	dead    int32 = -2 // nothing can match before the next line
)

// dfa finds the lines that a program matches, one byte after the other. Its states are
// made as they are needed. It belongs to one goroutine.
type dfa struct {
	prog  *syntax.Prog
	abc   *alphabet
	words bool // the program asks for word boundaries
	// looseCR takes the place before any carriage return for an end of the line: what is
	// found because of that has to be looked at again.
	looseCR  bool
	anchored bool

	width  int32 // entries of a state in table
	table  []int32
	states []dfaState // states[i] has the row at i*width
	byKey  map[string]int32
	first  int32
	begins map[beginning]begun // what the start of the program leads to, which most steps ask for

	set, next sparse
	stack     []uint32
	key       []byte
	threads   int // in all states
	work      int // places that were gone through to make them
	usual     int // that are gone through for each byte without an automaton
	scanned   int
}

// beginning is a rune's class and what is true before it, begun what a thread that begins
// there comes to.
type beginning struct {
	ops   syntax.EmptyOp
	class uint16
}

type begun struct {
	match bool
	next  []uint32
}

type dfaState struct {
	insts []uint32 // where threads stand, before what is empty has been gone through
	begin bool     // nothing of the line has been read
	word  bool     // the last rune was a word character
}

// hasWords says whether a program asks for word boundaries.
func hasWords(prog *syntax.Prog) bool {
	for i := range prog.Inst {
		if in := &prog.Inst[i]; in.Op == syntax.InstEmptyWidth &&
			syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 {
			return true
		}
	}
	return false
}

func newDFA(prog *syntax.Prog, abc *alphabet, words, looseCR bool) *dfa {
	d := &dfa{prog: prog, abc: abc, words: words, looseCR: looseCR, width: int32(abc.n + 1), begins: map[beginning]begun{}}
	d.set.grow(len(prog.Inst))
	d.next.grow(len(prog.Inst))
	d.anchored = d.isAnchored()
	d.forget()
	return d
}

// isAnchored says whether the program can begin at the start of a line only.
func (d *dfa) isAnchored() bool {
	if d.follow(uint32(d.prog.Start), ^(syntax.EmptyBeginText | syntax.EmptyBeginLine)) {
		return false
	}
	for _, pc := range d.set.dense {
		switch d.prog.Inst[pc].Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			return false
		}
	}
	return true
}

// forget throws all states away and makes the first one.
func (d *dfa) forget() {
	d.table = append(d.table[:0], make([]int32, d.width)...) // row 0 is no state
	d.states = append(d.states[:0], dfaState{})
	d.byKey = map[string]int32{}
	d.threads = 0
	d.first = d.state(nil, true, false)
}

// state returns the row of a state.
func (d *dfa) state(insts []uint32, begin, word bool) int32 {
	d.key = d.key[:0]
	var flags byte
	if begin {
		flags |= 1
	}
	if word {
		flags |= 2
	}
	d.key = append(d.key, flags)
	for _, pc := range insts {
		d.key = binary.LittleEndian.AppendUint32(d.key, pc)
	}
	if row, ok := d.byKey[string(d.key)]; ok {
		return row
	}
	d.threads += len(insts)
	row := int32(len(d.table))
	d.table = append(d.table, make([]int32, d.width)...)
	d.states = append(d.states, dfaState{slices.Clone(insts), begin, word})
	d.byKey[string(d.key)] = row
	return row
}

// step makes the transition of a state by a class; class abc.n is the end of the text.
func (d *dfa) step(row int32, class uint16) int32 {
	s := &d.states[row/d.width]
	var c rune = -1
	if int(class) < d.abc.n {
		c = d.abc.sample[class]
	}
	end := c < 0 || c == '\n'
	word := c >= 0 && syntax.IsWordChar(c)
	var ops syntax.EmptyOp
	if s.begin {
		ops |= syntax.EmptyBeginText | syntax.EmptyBeginLine
	}
	if end || c == '\r' && d.looseCR {
		ops |= syntax.EmptyEndText | syntax.EmptyEndLine
	}
	if s.word != word {
		ops |= syntax.EmptyWordBoundary
	} else {
		ops |= syntax.EmptyNoWordBoundary
	}
	start := d.begin(beginning{ops, class}, c)
	found := start.match
	d.set.clear()
	for _, pc := range s.insts {
		found = found || d.follow(pc, ops)
	}
	d.work += 10 + len(d.set.dense) + len(start.next)
	to := matched
	switch {
	case found:
	case end:
		to = d.first
	default:
		d.next.clear()
		for _, pc := range start.next {
			d.next.add(pc)
		}
		d.consume(c)
		if d.anchored && len(d.next.dense) == 0 {
			to = dead
			break
		}
		slices.Sort(d.next.dense)
		if len(d.table) > maxTable || d.threads > maxThreads {
			d.forget()
			return d.state(d.next.dense, false, word && d.words)
		}
		to = d.state(d.next.dense, false, word && d.words)
	}
	d.table[row+int32(class)] = to
	return to
}

// begin is what a match that begins before c, a rune of the class, comes to.
func (d *dfa) begin(at beginning, c rune) begun {
	b, ok := d.begins[at]
	if !ok {
		d.set.clear()
		d.next.clear()
		if b.match = d.follow(uint32(d.prog.Start), at.ops); !b.match {
			d.consume(c)
			b.next = slices.Clone(d.next.dense)
		}
		d.usual = max(d.usual, workByByte, len(d.set.dense)/2)
		d.begins[at] = b
	}
	return b
}

// consume adds to next where the places in set get by c.
func (d *dfa) consume(c rune) {
	for _, pc := range d.set.dense {
		if in := &d.prog.Inst[pc]; consumes(in, c) {
			d.next.add(in.Out)
		}
	}
}

func consumes(in *syntax.Inst, c rune) bool {
	switch in.Op {
	case syntax.InstRune, syntax.InstRune1:
		return in.MatchRune(c)
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return c != '\n'
	}
	return false
}

// follow adds to set what can be reached from pc without reading; true is a match.
func (d *dfa) follow(pc uint32, ops syntax.EmptyOp) bool {
	d.stack = append(d.stack[:0], pc)
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if !d.set.add(pc) {
			continue
		}
		in := &d.prog.Inst[pc]
		switch in.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^ops == 0 {
				d.stack = append(d.stack, in.Out)
			}
		}
	}
	return false
}

// scan looks for the first line at from, the start of a line, or behind that the program
// matches. It returns a place in the line, which can be its newline, or -1. The end of b is
// the end of a line. When it gives up on the way, hopeless says so afterwards and the place
// is where that was.
func (d *dfa) scan(b []byte, from int) int {
	row := d.first
	d.scanned += len(b) - from
	i := from
	ascii, table := &d.abc.ascii, d.table
	for i < len(b) {
		// Most bytes lead from one known state to another: what that takes is in this loop.
		to, class, size := int32(0), uint16(0), 1
		for i < len(b) {
			c := b[i]
			if c >= utf8.RuneSelf {
				var r rune
				r, size = utf8.DecodeRune(b[i:])
				class = d.abc.of(r)
				to = table[row+int32(class)]
				break
			}
			if to = table[row+int32(ascii[c])]; to <= 0 {
				class = ascii[c]
				break
			}
			row = to
			i++
		}
		if i == len(b) {
			break
		}
		if to <= 0 {
			if to == unknown {
				to = d.step(row, class)
				table = d.table
			}
			if to == dead {
				next := bytes.IndexByte(b[i:], '\n')
				if next < 0 {
					return -1
				}
				i += next + 1
				row = d.first
				continue
			}
			if to == matched || d.work > max(muchWork, d.usual*(d.scanned-len(b)+i)) {
				d.scanned -= len(b) - i
				return i
			}
		}
		row = to
		i += size
	}
	to := d.table[row+int32(d.abc.n)]
	if to == unknown {
		to = d.step(row, uint16(d.abc.n))
	}
	if to == matched {
		return len(b)
	}
	return -1
}

// hopeless says that the automaton is of no use for this text.
func (d *dfa) hopeless() bool { return d.work > max(muchWork, d.usual*d.scanned) }

// sparse is a set of small numbers that is cleared at once.
type sparse struct {
	dense []uint32
	where []uint32
}

func (s *sparse) grow(n int) { s.dense, s.where = make([]uint32, 0, n), make([]uint32, n) }

func (s *sparse) clear() { s.dense = s.dense[:0] }

func (s *sparse) add(v uint32) bool {
	if i := s.where[v]; int(i) < len(s.dense) && s.dense[i] == v {
		return false
	}
	s.where[v] = uint32(len(s.dense))
	s.dense = append(s.dense, v)
	return true
}
