package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// What is taken apart is bounded: a longer script, or one that is nested deeper, is not seen through.
const (
	maxScript   = 64 << 10
	maxDepth    = 8
	maxCommands = 1000
	maxParens   = 2000 // the parser goes back and forth between them
)

// word is one argument.
type word struct {
	text  string
	known bool // text is what the program gets; else it is what a shell makes of it
	glob  bool // not known, but only since * ? or [ stand for names of files; text is the pattern
}

// simple is one command with its arguments, none of which may be known.
type simple []word

// script is a text for bash taken apart.
type script struct {
	commands []simple
	plain    []string // the words, when it is one command in which a shell has nothing to do; else nil
	unclear  string   // the first thing that could not be seen through; "" for none
	file     *syntax.File
	direct   bool // no shell takes the words apart
	depth    int
	again    again
}

// doubt notes what cannot be seen through.
func (s *script) doubt(format string, args ...any) {
	if s.unclear == "" {
		s.unclear = fmt.Sprintf(format, args...)
	}
}

// ofArgv is a program that is started without a shell.
func ofArgv(argv []string) *script {
	s := &script{direct: true, plain: argv}
	c := make(simple, len(argv))
	for i, a := range argv {
		c[i] = word{text: a, known: true}
	}
	s.add(c)
	return s
}

// parse takes a script apart.
func parse(text string) *script { return parseAt(text, 0) }

func parseAt(text string, depth int) *script {
	s := &script{depth: depth}
	switch {
	case len(text) > maxScript:
		s.doubt("the script is longer than %d bytes", maxScript)
		return s
	case strings.Count(text, "(") > maxParens:
		s.doubt("it has more than %d parentheses", maxParens)
		return s
	case depth > maxDepth:
		s.doubt("scripts are nested too deep")
		return s
	}
	if why := strange(text); why != "" {
		s.doubt("%s", why)
		return s
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		s.doubt("it is not valid shell syntax") // bash runs what stands before the fault
		return s
	}
	s.file = file
	syntax.Walk(file, func(n syntax.Node) bool {
		s.visit(n)
		s.again.visit(n)
		return true
	})
	s.plain = plainWords(file)
	return s
}

// strange says what is in a text that shells and this parser do not read in the same way.
func strange(text string) string {
	if !utf8.ValidString(text) {
		return "it is not UTF-8"
	}
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return fmt.Sprintf("it has the control character %U in it", r)
		}
	}
	return ""
}

// visit notes what a node of the script runs.
func (s *script) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		for _, a := range n.Assigns {
			s.assign(a)
		}
		if len(n.Args) == 0 {
			return
		}
		c := make(simple, len(n.Args))
		for i, w := range n.Args {
			c[i] = read(w)
		}
		s.add(c)
	case *syntax.DeclClause:
		for _, a := range n.Args {
			s.assign(a)
			if a.Name == nil {
				s.doubt("a variable is declared by a name that is made up at run time")
			}
		}
	case *syntax.WordIter:
		if n.Name != nil {
			s.assigned(n.Name.Value)
		}
	}
}

func (s *script) assign(a *syntax.Assign) {
	if a.Name != nil && !a.Naked {
		s.assigned(a.Name.Value)
	}
}

// assigned notes a variable that is set.
func (s *script) assigned(name string) {
	if carriesCommands(name) {
		s.doubt("the variable %s can name programs", name)
	}
}

// add notes a command, and those in its arguments.
func (s *script) add(c simple) {
	if s.full() {
		return
	}
	s.commands = append(s.commands, c)
	if s.depth > maxDepth {
		s.doubt("too many commands stand in one another")
		return
	}
	if c[0].known && !s.direct {
		s.again.builtin(c)
	}
	s.inner(c)
}

// full reports whether so many commands have been found that the rest is not looked into.
func (s *script) full() bool {
	if len(s.commands) < maxCommands {
		return false
	}
	s.doubt("it has more than %d commands", maxCommands)
	return true
}

// nested adds what a script in an argument does.
func (s *script) nested(text string) {
	if s.full() {
		return
	}
	in := parseAt(text, s.depth+1)
	s.commands = append(s.commands, in.commands...)
	s.again.evaluates = s.again.evaluates || in.again.evaluates
	s.again.text = s.again.text || in.again.text
	if in.unclear != "" {
		s.doubt("%s", in.unclear)
	}
}

// plainWords are the words of a script that is one command in which a shell has nothing to do.
func plainWords(file *syntax.File) []string {
	if len(file.Stmts) != 1 {
		return nil
	}
	st := file.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || st.Coprocess || st.Disown || len(st.Redirs) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil
	}
	var words []string
	for _, a := range call.Args {
		w := read(a)
		if !w.known {
			return nil
		}
		words = append(words, w.text)
	}
	return words
}

// read is what a word is before a shell expands it, and whether it would.
func read(w *syntax.Word) word {
	var b strings.Builder
	out := word{known: true}
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			text, glob, other := unescape(p.Value, i == 0)
			b.WriteString(text)
			if glob || other {
				out.known = false
			}
			out.glob = out.glob || glob
			if other {
				return word{}
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return word{}
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return word{}
			}
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return word{}
				}
				b.WriteString(unescapeQuoted(lit.Value))
			}
		default:
			return word{}
		}
	}
	out.text = b.String()
	return out
}

// unescape takes the backslashes out of what stands without quotes. glob: it has a pattern for names of files;
// other: something else that is expanded.
func unescape(raw string, first bool) (text string, glob, other bool) {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '\\':
			i++
			if i < len(raw) && raw[i] != '\n' {
				b.WriteByte(raw[i])
			}
			continue
		case '*', '?', '[':
			glob = glob || raw != "["
		case '~':
			other = other || i == 0 && first
		case '{':
			other = other || !strings.HasPrefix(raw[i:], "{}")
		case '$', '`':
			other = other || i+1 < len(raw) || c == '`'
		}
		b.WriteByte(raw[i])
	}
	return b.String(), glob, other
}

// unescapeQuoted does the same between double quotes.
func unescapeQuoted(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' && i+1 < len(raw) && strings.IndexByte("\\$`\"\n", raw[i+1]) >= 0 {
			i++
			if raw[i] == '\n' {
				continue
			}
		}
		b.WriteByte(raw[i])
	}
	return b.String()
}

// program is the name of a program without its directory.
func program(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	return strings.TrimSuffix(strings.ToLower(name), ".exe")
}

// has reports whether a command that begins so is run anywhere in the script, or could be.
func (s *script) has(words Words) (verdict, string) {
	answer, why := no, ""
	for _, c := range s.commands {
		switch m, doubt := c.begins(words); m {
		case yes:
			return yes, ""
		case maybe:
			if answer == no {
				answer, why = maybe, doubt
			}
		case no:
			if answer != no || s.unclear != "" { // it is asked about already
				continue
			}
			if m, doubt := c.mentions(words); m == maybe {
				answer, why = maybe, doubt
			}
		}
	}
	if answer == no && s.unclear != "" {
		return maybe, s.unclear
	}
	return answer, why
}

// begins reports whether a command has these words in their order. Options and what follows them may stand
// between; words that are options themselves may stand anywhere.
func (c simple) begins(words Words) (verdict, string) {
	if !c[0].known {
		return maybe, "the program is made up at run time"
	}
	if !strings.EqualFold(c[0].text, words[0]) && program(c[0].text) != program(words[0]) {
		return no, ""
	}
	const unknown = "an argument is made up at run time"
	rest, args := words[1:], c[1:]
	var options []string
	rest = slices.DeleteFunc(slices.Clone(rest), func(w string) bool {
		if strings.HasPrefix(w, "-") && len(w) > 1 {
			options = append(options, w)
			return true
		}
		return false
	})
	afterOption := false
	for _, a := range args {
		if len(rest) == 0 {
			break
		}
		switch {
		case !a.known:
			return maybe, unknown
		case a.text == rest[0]:
			rest, afterOption = rest[1:], false
		case strings.HasPrefix(a.text, "-"):
			afterOption = !strings.Contains(a.text, "=")
		case afterOption:
			afterOption = false
		default:
			return no, ""
		}
	}
	if len(rest) > 0 {
		return no, ""
	}
	for _, o := range options {
		if !args.hasOption(o) {
			if slices.ContainsFunc(args, func(w word) bool { return !w.known }) {
				return maybe, unknown
			}
			return no, ""
		}
	}
	return yes, ""
}

// hasOption looks for an option in all the ways it may be written: -rf as -fr or -r -f, --force as --for or
// --force=yes.
func (c simple) hasOption(o string) bool {
	if name, long := strings.CutPrefix(o, "--"); long {
		return slices.ContainsFunc(c, func(w word) bool {
			got, ok := strings.CutPrefix(w.text, "--")
			got, _, _ = strings.Cut(got, "=")
			return ok && got != "" && strings.HasPrefix(name, got)
		})
	}
	for _, letter := range o[1:] {
		if !slices.ContainsFunc(c, func(w word) bool {
			return w.text == o || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.ContainsRune(w.text[1:], letter)
		}) {
			return false
		}
	}
	return true
}
