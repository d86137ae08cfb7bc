package git

import (
	"slices"
	"strings"
)

// command is a subcommand and what may be given to it.
type command struct {
	name    string
	extra   bool     // only when the configuration adds it
	writes  bool     // takes locks, changes the repository
	fixed   []string // what is always given to git, in front of the arguments
	options *options
	pathful bool // every argument is a path, none a revision
	number  bool // -5 is how many
	// refused are options of this subcommand that have a reason of their own, beside those of refusals.
	refused map[string]refusal
	check   func(a *arguments) error
}

// options is what is allowed, by name without dashes.
type options struct {
	named map[string]*option
	list  []string // as they are written, for messages
}

type option struct {
	name  string // the long one, or the letter if there is none
	long  bool
	value valueKind
	path  bool // the value ends in a path, behind a colon if there is one
}

type valueKind int

const (
	none     valueKind = iota
	optional           // attached or not at all
	required           // attached or the next argument
)

// newOptions reads "-p --patch", "--stat[=]" and "-n --max-count=": one option each, both names of it.
func newOptions(lists ...[]string) *options {
	set := &options{named: map[string]*option{}}
	for _, text := range slices.Concat(lists...) {
		set.list = append(set.list, text)
		o := &option{}
		switch {
		case strings.HasSuffix(text, "[=]"):
			o.value = optional
			text = strings.TrimSuffix(text, "[=]")
		case strings.HasSuffix(text, "="):
			o.value = required
			text = strings.TrimSuffix(text, "=")
		}
		for name := range strings.FieldsSeq(text) {
			bare := strings.TrimLeft(name, "-")
			if long := strings.HasPrefix(name, "--"); long || o.name == "" {
				o.name, o.long = bare, long
			}
			set.named[bare] = o
		}
	}
	return set
}

var diffOptions = []string{
	"-p -u --patch", "-s --no-patch", "--raw", "--stat[=]", "--numstat", "--shortstat", "--dirstat[=]", "--summary", "--compact-summary",
	"--patch-with-stat", "--name-only", "--name-status", "--minimal", "--patience", "--histogram", "--diff-algorithm=", "--anchored=",
	"-U --unified=", "--word-diff[=]", "--word-diff-regex=", "--no-renames", "-M --find-renames[=]", "-C --find-copies[=]",
	"--find-copies-harder", "-B --break-rewrites[=]", "-D --irreversible-delete", "-l=", "--diff-filter=", "-S=", "-G=", "--find-object=",
	"--pickaxe-all", "--pickaxe-regex", "-R", "--relative[=]", "--no-relative", "-a --text", "--ignore-cr-at-eol", "--ignore-space-at-eol",
	"-b --ignore-space-change", "-w --ignore-all-space", "--ignore-blank-lines", "-I --ignore-matching-lines=", "--inter-hunk-context=",
	"-W --function-context", "--abbrev[=]", "--no-abbrev", "--full-index", "--binary", "--src-prefix=", "--dst-prefix=", "--no-prefix",
	"--no-color", "--no-ext-diff", "--no-textconv",
}

var logOptions = []string{
	"-n --max-count=", "--skip=", "--since=", "--after=", "--until=", "--before=", "--author=", "--committer=", "--grep=", "--all-match",
	"--invert-grep", "-i --regexp-ignore-case", "-E --extended-regexp", "-F --fixed-strings", "-P --perl-regexp", "--basic-regexp",
	"--merges", "--no-merges", "--first-parent", "--min-parents=", "--max-parents=", "--branches[=]", "--tags[=]", "--remotes[=]",
	"--glob=", "--exclude=", "--all", "--not", "--reverse", "--graph", "--oneline", "--format=", "--pretty[=]", "--abbrev-commit",
	"--no-abbrev-commit", "--decorate[=]", "--no-decorate", "--decorate-refs=", "--decorate-refs-exclude=", "--source", "--follow",
	"--full-history", "--dense", "--sparse", "--simplify-merges", "--simplify-by-decoration", "--ancestry-path", "--topo-order",
	"--date-order", "--author-date-order", "--date=", "--relative-date", "--parents", "--children", "--left-right", "--cherry",
	"--cherry-pick", "--cherry-mark", "--left-only", "--right-only", "--boundary", "-g --walk-reflogs", "--merge", "--notes[=]",
	"--no-notes", "--mailmap", "--no-mailmap", "-L=", "-m", "--cc", "--diff-merges=", "--no-diff-merges", "--no-walk[=]", "--show-pulls",
	"--remove-empty", "-t",
}

// commands are all subcommands. Where git would start something because of an option that is not given, the
// opposite is among fixed.
func commands() map[string]*command {
	quiet := []string{"--no-ext-diff", "--no-textconv"}
	inWorkTree := []string{"--ignore-submodules=dirty"} // looks at the commit of a submodule, and runs no git in it
	log := newOptions(logOptions, diffOptions)
	noRemerge := map[string]refusal{"remerge-diff": {why: "it runs merge drivers"}, "show-signature": {why: "it runs a signing program"},
		"c": {why: "the configuration cannot be changed; a merge is shown with --cc"}}
	list := []*command{
		{name: "status", fixed: inWorkTree, options: newOptions([]string{
			"-s --short", "-b --branch", "--show-stash", "--porcelain[=]", "--long", "-u --untracked-files[=]", "--ignored[=]",
			"--no-renames", "--renames", "--find-renames[=]", "--ahead-behind", "--no-ahead-behind"}), pathful: true},
		{name: "log", fixed: quiet, options: log, number: true, refused: noRemerge, check: checkMerges},
		{name: "show", fixed: quiet, options: log, number: true, refused: noRemerge, check: checkMerges},
		{name: "diff", fixed: slices.Concat(quiet, inWorkTree), options: newOptions(diffOptions, []string{
			"--cached", "--staged", "--merge-base", "-1 --base", "-2 --ours", "-3 --theirs", "-0", "--cc"})},
		{name: "blame", fixed: []string{"--no-textconv"}, options: newOptions([]string{
			"-L=", "--root", "-l", "-t", "-p --porcelain", "--line-porcelain", "-M[=]", "-C[=]", "--reverse", "--first-parent", "--date=",
			"-f --show-name", "-n --show-number", "-s", "-e --show-email", "-w", "--abbrev=", "--since=", "--ignore-rev=", "--incremental",
			"--minimal", "--no-textconv"}),
			refused: map[string]refusal{"S": {why: "it reads a file outside git", outside: true}}},
		{name: "branches", options: newOptions([]string{"-r --remotes", "-a --all"})},
		{name: "changed_files", options: newOptions([]string{"--cached", "--staged", "--merge-base"})},
		{name: "commit", writes: true, pathful: true, fixed: []string{"--no-gpg-sign"}, options: newOptions([]string{
			"-m --message=", "-a --all", "--amend", "--no-edit", "--allow-empty", "--author=", "--date=", "-s --signoff", "--reset-author",
			"-o --only", "-i --include", "--fixup=", "-q --quiet", "--no-gpg-sign"}),
			refused: map[string]refusal{
				"C": {why: "the message is given with -m"}, "c": {why: "there is no editor; the message is given with -m"},
				"S": {why: "it runs a signing program"}, "gpg-sign": {why: "it runs a signing program"},
				"n": {why: "whether hooks run is the configuration's"}, "no-verify": {why: "whether hooks run is the configuration's"},
				"p": {why: "nobody can be asked"}, "patch": {why: "nobody can be asked"}, "interactive": {why: "nobody can be asked"},
				"e": {why: "there is no editor; the message is given with -m"}, "edit": {why: "there is no editor; the message is given with -m"},
				"trailer": {why: "it runs programs of the configuration; write it into the message"}},
			check: checkMessage},

		{name: "add", extra: true, writes: true, pathful: true, options: newOptions([]string{
			"-A --all", "-u --update", "-f --force", "-n --dry-run", "-v --verbose", "-N --intent-to-add"})},
		{name: "ls-files", extra: true, pathful: true, options: newOptions([]string{
			"-c --cached", "-d --deleted", "-m --modified", "-o --others", "-i --ignored", "-s --stage", "-u --unmerged", "-k --killed",
			"-t", "-v", "--directory", "--no-empty-directory", "--exclude-standard", "--eol", "--full-name", "--error-unmatch", "--abbrev[=]", "-x --exclude="})},
		{name: "rev-parse", extra: true, options: newOptions([]string{
			"--verify", "-q --quiet", "--short[=]", "--abbrev-ref[=]", "--symbolic-full-name", "--show-toplevel", "--show-prefix", "--show-cdup",
			"--is-bare-repository", "--is-inside-work-tree", "--is-shallow-repository", "--branches[=]", "--tags[=]", "--remotes[=]", "--all"})},
		{name: "describe", extra: true, options: newOptions([]string{
			"--all", "--tags", "--contains", "--abbrev=", "--candidates=", "--exact-match", "--long", "--match=", "--exclude=", "--always", "--first-parent"})},
	}
	named := map[string]*command{}
	for _, c := range list {
		if o := c.options.named["L"]; o != nil && c.name != "blame" {
			o.path = true
		}
		if o := c.options.named["relative"]; o != nil {
			o.path = true
		}
		named[c.name] = c
	}
	return named
}

// Extra lists the subcommands that Options.Subcommands may add.
func Extra() []string {
	var names []string
	for name, c := range commands() {
		if c.extra {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// allowed lists the subcommands there are here, in the order of the specification.
func (g *Git) allowed() []string {
	names := []string{"status", "log", "diff", "show", "blame", "branches", "changed_files", "commit"}
	var more []string
	for name, c := range g.commands {
		if !c.extra && !slices.Contains(names, name) {
			more = append(more, name)
		}
	}
	slices.Sort(more)
	return append(names, more...)
}

// checkMerges allows the ways to show a merge that merge nothing anew.
func checkMerges(a *arguments) error {
	for _, value := range a.values["diff-merges"] {
		if !slices.Contains([]string{"off", "none", "on", "first-parent", "1", "separate", "m", "combined", "c", "dense-combined", "cc"}, value) {
			return a.refuse("--diff-merges="+value, refusal{why: "allowed are off, on, first-parent, separate, combined and dense-combined"})
		}
	}
	return nil
}

// checkMessage makes sure that no editor is needed.
func checkMessage(a *arguments) error {
	switch {
	case a.has("amend") && !a.has("message") && !a.has("fixup"):
		a.before = append(a.before, "--no-edit")
	case !a.has("message") && !a.has("fixup"):
		return invalid("git commit: there is no message, and no editor to write one; give it with -m")
	}
	return nil
}
