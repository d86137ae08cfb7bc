package search

import (
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// alphabet sorts runes into the classes that a program cannot tell apart.
type alphabet struct {
	ascii  [utf8.RuneSelf]uint16
	bounds []rune   // first runes of the ranges of what is not ASCII, in order
	class  []uint16 // theirs
	n      int      // classes; n is the end of the text
	sample []rune   // one rune of each class
}

// newAlphabet finds the classes. Newline and carriage return are always alone.
func newAlphabet(prog *syntax.Prog, words bool) *alphabet {
	cuts := []rune{0, '\n', '\n' + 1, '\r', '\r' + 1, utf8.RuneSelf}
	add := func(lo, hi rune) { cuts = append(cuts, lo, hi+1) }
	if words {
		add('0', '9')
		add('A', 'Z')
		add('_', '_')
		add('a', 'z')
	}
	var matchers []*syntax.Inst
	for i := range prog.Inst {
		in := &prog.Inst[i]
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			matchers = append(matchers, in)
			if len(in.Rune) == 1 {
				r := in.Rune[0]
				add(r, r)
				if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
					for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
						add(f, f)
					}
				}
				continue
			}
			for j := 0; j+1 < len(in.Rune); j += 2 {
				add(in.Rune[j], in.Rune[j+1])
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	a := &alphabet{}
	ids := map[string]uint16{}
	sign := make([]byte, 0, len(matchers)/8+2)
	for i, lo := range cuts {
		if lo > unicode.MaxRune {
			break
		}
		sign = append(sign[:0], 0)
		switch {
		case lo == '\n':
			sign[0] = 1
		case lo == '\r':
			sign[0] = 2
		case words && syntax.IsWordChar(lo):
			sign[0] = 3
		}
		for j, in := range matchers {
			if j%8 == 0 {
				sign = append(sign, 0)
			}
			if in.MatchRune(lo) {
				sign[len(sign)-1] |= 1 << (j % 8)
			}
		}
		id, ok := ids[string(sign)]
		if !ok {
			id = uint16(a.n)
			ids[string(sign)] = id
			a.sample = append(a.sample, lo)
			a.n++
		}
		for r := lo; r < utf8.RuneSelf && (i+1 == len(cuts) || r < cuts[i+1]); r++ {
			a.ascii[r] = id
		}
		if lo >= utf8.RuneSelf {
			a.bounds = append(a.bounds, lo)
			a.class = append(a.class, id)
		}
	}
	return a
}

func (a *alphabet) of(r rune) uint16 {
	if r < utf8.RuneSelf {
		return a.ascii[r]
	}
	lo, hi := 0, len(a.bounds)
	for hi-lo > 1 {
		if m := int(uint(lo+hi) >> 1); a.bounds[m] <= r {
			lo = m
		} else {
			hi = m
		}
	}
	return a.class[lo]
}
