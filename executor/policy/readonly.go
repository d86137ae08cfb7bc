package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// notReadOnly says why a script may change something, or run something that may; "" when it only reads. It fails
// closed: a program or an option that is not in the table, and whatever a shell would make of the text that is
// not in the small language below, is a reason.
//
// That language is: programs of the table joined by |, &&, || and ;, words without expansion but for patterns
// that cannot become an option, redirections of output to /dev/null or another output, of input from a file.
func notReadOnly(s *script) string {
	switch {
	case s.direct:
		return notReader(s.plain, false)
	case s.file == nil:
		return s.unclear
	case len(s.file.Stmts) == 0:
		return "it is empty"
	}
	for _, st := range s.file.Stmts {
		if why := notReadingStmt(st); why != "" {
			return why
		}
	}
	return ""
}

func notReadingStmt(st *syntax.Stmt) string {
	if st.Background || st.Coprocess || st.Disown {
		return "it goes on in the background"
	}
	for _, r := range st.Redirs {
		if why := notReadingRedirect(r); why != "" {
			return why
		}
	}
	switch c := st.Cmd.(type) {
	case *syntax.BinaryCmd:
		if why := notReadingStmt(c.X); why != "" {
			return why
		}
		return notReadingStmt(c.Y)
	case *syntax.CallExpr:
		if len(c.Assigns) > 0 {
			return "it sets a variable"
		}
		var argv []string
		globs := false
		for _, a := range c.Args {
			w := read(a)
			switch {
			case w.known:
			case w.glob && !strings.ContainsAny(w.text[:1], "-*?[+") && len(argv) > 0:
				// A pattern that begins with a plain character stands for names that do: for no option.
				globs = true
			default:
				return "a shell makes arguments of it that are not known"
			}
			argv = append(argv, w.text)
		}
		return notReader(argv, globs)
	}
	return "it is more than programs one after another"
}

func notReadingRedirect(r *syntax.Redirect) string {
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" || r.Word == nil {
		return "it redirects"
	}
	to := read(r.Word)
	if !to.known {
		return "it redirects to what is not known"
	}
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll:
		if to.text == "/dev/null" {
			return ""
		}
		return "it writes to " + brief(to.text)
	case syntax.DplOut:
		if to.text == "1" || to.text == "2" {
			return ""
		}
	case syntax.RdrIn:
		if to.text == "/dev/null" || !strings.HasPrefix(to.text, "/dev") && !strings.HasPrefix(to.text, "//") {
			return ""
		}
	}
	return "it redirects"
}

// notReader says why a program with these arguments may do more than read. globs: some of them stand for any number
// of others.
func notReader(argv []string, globs bool) string {
	if len(argv) == 0 || argv[0] == "" {
		return "there is no program"
	}
	name := argv[0]
	if dir, base, ok := cutLast(name, "/"); ok {
		if !slices.Contains(systemDirs, dir) {
			return fmt.Sprintf("%s is no program of the system", brief(name))
		}
		name = base
	}
	r, ok := readers[name]
	if !ok {
		return fmt.Sprintf("%s is not known to only read", brief(name))
	}
	if globs && r.operands > 0 {
		return fmt.Sprintf("%s: a pattern may stand for more operands than it may have", name)
	}
	if why := r.notReading(argv[1:]); why != "" {
		return fmt.Sprintf("%s: %s", name, why)
	}
	return ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// reader is how a program may be called so that it only reads.
type reader struct {
	flags    string // letters of options without a value
	values   string // letters of options with one
	long     string // options by their whole names, those with a value with a = behind
	operands int    // how many there may be at most; -1 = any number
	check    func(args []string) string
}

// notReading takes arguments apart as getopt does, where an option may stand behind an operand. A long option that
// is cut short is not known.
func (r reader) notReading(args []string) string {
	if r.check != nil {
		return r.check(args)
	}
	_, why := r.take(args)
	return why
}

// take returns the operands. A value that stands in the next argument must not look like an option: another version
// of the program may not take it for a value.
func (r reader) take(args []string) (operands []string, why string) {
	value := func(i int) string {
		if i < len(args) && strings.HasPrefix(args[i], "-") {
			return fmt.Sprintf("%s may be an option", brief(args[i]))
		}
		return ""
	}
	long := strings.Fields(r.long)
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			operands = append(operands, args[i+1:]...)
			i = len(args)
		case strings.HasPrefix(a, "--"):
			name, _, given := strings.Cut(a, "=")
			switch {
			case slices.Contains(long, name+"=") && !given:
				if i++; value(i) != "" {
					return nil, value(i)
				}
			case slices.Contains(long, name+"=") || slices.Contains(long, name+"[=]") || slices.Contains(long, name) && !given:
			default:
				return nil, fmt.Sprintf("the option %s is not known to be harmless", brief(a))
			}
		case strings.HasPrefix(a, "-") && len(a) > 1:
			next, unknown := r.letters(a[1:])
			if unknown != "" {
				return nil, fmt.Sprintf("the option %s is not known to be harmless", brief(unknown))
			}
			if next {
				if i++; value(i) != "" {
					return nil, value(i)
				}
			}
		default:
			operands = append(operands, a)
		}
	}
	if r.operands >= 0 && len(operands) > r.operands {
		return nil, fmt.Sprintf("with %d operands it may write", len(operands))
	}
	return operands, ""
}

// letters reads options behind one dash. value: the last has its value in the next argument.
func (r reader) letters(cluster string) (value bool, unknown string) {
	for i, c := range cluster {
		switch {
		case strings.ContainsRune(r.values, c):
			return i == len(cluster)-1, ""
		case !strings.ContainsRune(r.flags, c):
			return false, "-" + string(c)
		}
	}
	return false, ""
}

// onlyArgs are the exact arguments there may be.
func onlyArgs(allowed ...string) reader {
	return reader{check: func(args []string) string {
		if slices.Contains(allowed, strings.Join(args, " ")) {
			return ""
		}
		return "it is not one of the calls that are known"
	}}
}

var (
	sedPrint = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([0-9]+|\$)(,([0-9]+|\$))?p(;([0-9]+|\$)(,([0-9]+|\$))?[pq])*$`)
	})
	awkPrint = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s*\{\s*print(\s+(\$[0-9]+|\$NF|NR|NF)(\s*,\s*(\$[0-9]+|\$NF|NR|NF))*)?\s*\}\s*$`)
	})
	awkSplit = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^-F.[^=/]{0,3}$`)
	})
)

func readsDate(args []string) string {
	operands, why := reader{flags: "uR", values: "dr", long: "--utc --universal --date= --reference= --iso-8601[=] --rfc-3339= --rfc-email", operands: 1}.take(args)
	if why == "" && len(operands) == 1 && !strings.HasPrefix(operands[0], "+") {
		return "it may set the clock"
	}
	return why
}

func readsSed(args []string) string {
	operands, why := reader{flags: "nEr", long: "--quiet --silent --regexp-extended", operands: -1}.take(args)
	switch {
	case why != "":
		return why
	case len(operands) == 0 || !sedPrint().MatchString(operands[0]):
		return "only scripts like 10,20p are known to be harmless"
	}
	return ""
}

func readsAwk(args []string) string {
	for len(args) > 0 && awkSplit().MatchString(args[0]) {
		args = args[1:]
	}
	if len(args) == 0 || !awkPrint().MatchString(args[0]) {
		return "only programs like {print $1} are known to be harmless"
	}
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "-") || strings.Contains(a, "=") {
			return "its arguments may change what it does"
		}
	}
	return ""
}

// findTests are what find may be asked, with how many values.
var findTests = map[string]int{
	"-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-regex": 1, "-iregex": 1, "-type": 1, "-xtype": 1, "-maxdepth": 1, "-mindepth": 1,
	"-newer": 1, "-mtime": 1, "-mmin": 1, "-atime": 1, "-amin": 1, "-ctime": 1, "-cmin": 1, "-size": 1, "-user": 1, "-group": 1, "-perm": 1, "-empty": 0, "-links": 1,
	"-print": 0, "-print0": 0, "-printf": 1, "-ls": 0, "-prune": 0, "-not": 0, "!": 0, "-a": 0, "-and": 0, "-o": 0, "-or": 0, "(": 0, ")": 0, ",": 0,
	"-true": 0, "-false": 0, "-depth": 0, "-xdev": 0, "-mount": 0, "-follow": 0, "-quit": 0, "-readable": 0, "-writable": 0, "-executable": 0, "-regextype": 1,
	"-L": 0, "-P": 0, "-H": 0, "-samefile": 1, "-inum": 1, "-nouser": 0, "-nogroup": 0, "-daystart": 0, "-noleaf": 0,
}

func readsFind(args []string) string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") && a != "!" && a != "(" && a != ")" && a != "," {
			continue // where it begins
		}
		n, ok := findTests[a]
		if !ok {
			return fmt.Sprintf("%s is not known to be harmless", brief(a))
		}
		i += n
	}
	return ""
}
