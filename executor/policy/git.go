package policy

import (
	"fmt"
	"slices"
	"strings"
)

const (
	gitDiff = "--stat[=] --numstat --shortstat --name-only --name-status --cached --staged --patch --no-patch --raw --summary --unified= --word-diff[=] --color[=] --no-color " +
		"--ignore-all-space --ignore-space-change --diff-filter= --find-renames[=] --no-renames --relative[=] --merge-base --no-ext-diff --no-textconv --minimal --histogram --patience --text --binary --full-index --abbrev[=] --exit-code --quiet --function-context --check"
	gitLog = "--oneline --graph --all --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= --format= --pretty[=] --abbrev-commit --decorate[=] --no-decorate " +
		"--merges --no-merges --first-parent --reverse --follow --date= --branches[=] --tags[=] --remotes[=] --topo-order --date-order --no-walk --cherry-pick --left-right --full-history --simplify-by-decoration --invert-grep --all-match --boundary --shortstat"
)

// gitReaders are the subcommands of git that only read, in the form in which they do. git believes the
// configuration of the repository, which can name programs for a diff: who works in repositories that are not
// trusted has a rule that asks about git.
var gitReaders = map[string]reader{
	"status":        {flags: "sbuvz", long: "--short --branch --porcelain[=] --untracked-files[=] --ignored[=] --long --show-stash --ahead-behind --no-ahead-behind --no-renames", operands: -1},
	"log":           {flags: "psniuwbEFPigcm0123456789", values: "nSGL", long: gitLog + " " + gitDiff, operands: -1},
	"show":          {flags: "psuwbm", long: gitLog + " " + gitDiff, operands: -1},
	"diff":          {flags: "psuwbRaWz", values: "SG", long: gitDiff, operands: -1},
	"blame":         {flags: "wltsefnpbM", values: "L", long: "--porcelain --line-porcelain --date= --since= --abbrev=", operands: -1},
	"shortlog":      {flags: "nsec", long: "--all --numbered --summary --email --since= --until=", operands: -1},
	"rev-parse":     {flags: "q", long: "--verify --quiet --short[=] --abbrev-ref[=] --symbolic-full-name --show-toplevel --show-prefix --show-cdup --git-dir --is-inside-work-tree --is-bare-repository --absolute-git-dir --git-common-dir", operands: -1},
	"rev-list":      {flags: "n", values: "n", long: "--count --all --max-count= --since= --until= --no-merges --merges --first-parent --reverse --left-right", operands: -1},
	"ls-files":      {flags: "cdmoistukvz", values: "x", long: "--cached --deleted --modified --others --ignored --stage --exclude-standard --full-name --error-unmatch --eol --exclude=", operands: -1},
	"ls-tree":       {flags: "drtlz", long: "--name-only --name-status --long --full-name --full-tree --abbrev[=]", operands: -1},
	"cat-file":      {flags: "tspe", operands: 2},
	"show-ref":      {flags: "sdqh", long: "--heads --tags --branches --hash[=] --verify --quiet --dereference", operands: -1},
	"for-each-ref":  {values: "", long: "--format= --sort= --count= --merged[=] --contains[=] --points-at=", operands: -1},
	"merge-base":    {flags: "a", long: "--all --octopus --is-ancestor --fork-point --independent", operands: -1},
	"name-rev":      {long: "--tags --name-only --always", operands: -1},
	"describe":      {long: "--tags --all --always --long --abbrev= --dirty[=] --match= --exact-match --contains --first-parent", operands: -1},
	"grep":          {flags: "niwvEFGPlLcohHIaqpWz0123456789", values: "eABCm", long: "--line-number --ignore-case --word-regexp --count --files-with-matches --name-only --cached --untracked --no-index --max-depth= --color[=] --and --or --not --all-match --heading --break --show-function --function-context", operands: -1},
	"count-objects": {flags: "vH", operands: 0},
	"check-ignore":  {flags: "qvn", operands: -1},
	"version":       {operands: 0},
	"var":           {operands: 1},
}

// gitLists are subcommands that list something in exactly these forms, and change something in others.
var gitLists = map[string][]string{
	"branch": {"", "-a", "-r", "-v", "-vv", "-av", "-avv", "-va", "--list", "--all", "--remotes", "--show-current", "--all --verbose"},
	"tag":    {"", "-l", "--list", "-n", "-n1", "--sort=-creatordate"}, "remote": {"", "-v", "--verbose", "show"}, "stash": {"list", "show", "show -p", "show --stat"},
	"worktree": {"list", "list --porcelain"}, "reflog": {"", "show"}, "config": {"--list", "-l", "--list --show-origin", "--get user.name", "--get user.email", "--get remote.origin.url", "user.name", "user.email", "remote.origin.url"},
	"bisect": {"log"}, "notes": {"list"}, "sparse-checkout": {"list"},
}

func readsGit(args []string) string {
	for len(args) > 0 && (args[0] == "--no-pager" || args[0] == "--no-optional-locks" || args[0] == "--literal-pathspecs") {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		return ""
	case args[0] == "--version":
		return ""
	case strings.HasPrefix(args[0], "-"):
		return fmt.Sprintf("the option %s is not known to be harmless", brief(args[0]))
	}
	for _, a := range args { // formats that have signatures checked, by a program
		if strings.Contains(a, "%G") || strings.Contains(a, "%(sig") {
			return "it may run the program that checks signatures"
		}
	}
	if forms, ok := gitLists[args[0]]; ok {
		if slices.Contains(forms, strings.Join(args[1:], " ")) {
			return ""
		}
		return fmt.Sprintf("git %s may change something", args[0])
	}
	r, ok := gitReaders[args[0]]
	if !ok {
		return fmt.Sprintf("git %s is not known to only read", brief(args[0]))
	}
	if why := r.notReading(args[1:]); why != "" {
		return fmt.Sprintf("git %s: %s", args[0], why)
	}
	return ""
}
