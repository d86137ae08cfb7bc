package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// again notes where bash evaluates a text a second time: the value of a variable in arithmetic, the index of an array in
// a name. What such a text says is run, so it must be plain.
type again struct {
	evaluates bool // there is such a place
	text      bool // there is a text which may be other than it looks: quoted, from a command or a file's name
}

// visit notes what a node has to do with it.
func (g *again) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.SglQuoted:
		g.text = g.text || strings.ContainsAny(n.Value, "$`") || n.Dollar && strings.Contains(n.Value, `\`)
	case *syntax.Lit:
		g.text = g.text || strings.ContainsAny(n.Value, "`*?") || strings.Contains(n.Value, "$")
	case *syntax.CmdSubst, *syntax.ProcSubst:
		g.text = true
	case *syntax.ArithmExp:
		g.arithmetic(n.X)
	case *syntax.ArithmCmd:
		g.arithmetic(n.X)
	case *syntax.LetClause:
		g.evaluates = true
	case *syntax.CStyleLoop:
		g.evaluates = true
	case *syntax.Assign:
		g.arithmetic(n.Index)
	case *syntax.ArrayElem:
		g.arithmetic(n.Index)
	case *syntax.ParamExp:
		g.arithmetic(n.Index)
		if n.Excl || n.Slice != nil || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
			g.evaluates = true
		}
	case *syntax.UnaryTest:
		g.evaluates = g.evaluates || n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			g.evaluates = true
		}
	}
}

// arithmetic notes an expression with more in it than numbers.
func (g *again) arithmetic(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.Word:
		lit := x.Lit()
		g.evaluates = g.evaluates || strings.Trim(lit, "0123456789@*") != "" || lit == ""
	case *syntax.BinaryArithm:
		g.arithmetic(x.X)
		g.arithmetic(x.Y)
	case *syntax.UnaryArithm:
		g.arithmetic(x.X)
	case *syntax.ParenArithm:
		g.arithmetic(x.X)
	default:
		g.evaluates = true
	}
}

// testOperators stand behind the first operand of a test.
var testOperators = words("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ] )")

// builtin notes the builtins that evaluate names.
func (g *again) builtin(c simple) {
	args := c[1:]
	index := slices.ContainsFunc(args, func(w word) bool { return !w.known || strings.Contains(w.text, "[") })
	switch program(c[0].text) {
	case "test", "[":
		for i, a := range args {
			if a.text == "-v" || a.text == "-R" || !a.known && i+1 < len(args) && !slices.Contains(testOperators, args[i+1].text) {
				g.evaluates = true
			}
		}
	case "compgen", "let", "declare", "typeset", "local", "export", "readonly":
		g.evaluates = true
	case "read":
		g.text = true
		g.evaluates = g.evaluates || index
	case "unset", "getopts", "printf":
		g.evaluates = g.evaluates || index && program(c[0].text) != "printf"
	case "wait":
		g.evaluates = g.evaluates || len(args) > 0 && strings.HasPrefix(args[0].text, "-")
	}
}

// judge notes a script that evaluates a text that is not plain. given: variables come from elsewhere.
func (s *script) judge(given bool) {
	if s.again.evaluates && (s.again.text || given) {
		s.doubt("a shell evaluates a text in it a second time")
	}
}
