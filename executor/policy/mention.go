package policy

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ordinary are programs, beside those that only read, that run no other: what their arguments say is no command.
var ordinary = words("cp mv rm rmdir mkdir touch chmod chown chgrp ln unlink install mktemp dd tee truncate sync sleep shred tar gzip gunzip zcat bzip2 bunzip2 xz unxz zstd unzip zip " +
	"rsync scp sftp curl wget ping dig host nslookup kill pkill killall pgrep lsof ss netstat ifconfig mount umount split csplit iconv dos2unix patch yes expr factor numfmt shuf tsort " +
	"less more man top htop wait jobs fg bg disown read let export unset local declare typeset readonly set shopt shift return exit break continue pushd popd dirs umask ulimit getopts times history " +
	"go gofmt gcc cc g++ c++ ld ar nm objdump strip clang rustc javac tsc git egrep fgrep lscpu lsblk who w last tty stty clear reset tput logger sum md5 sha gpg openssl ssh-keygen")

// runners do what files say, that are not looked into. A list of arguments: only where one of them is given.
var runners = map[string][]string{
	"make": nil, "gmake": nil, "ninja": nil, "just": nil, "rake": nil, "task": nil, "ant": nil, "mvn": nil, "gradle": nil, "tox": nil, "nox": nil, "scons": nil, "bazel": nil, "meson": nil,
	"npx": nil, "bunx": nil, "uvx": nil, "pipx": nil, "uv": nil, "poetry": nil, "pipenv": nil, "bundle": nil, "direnv": nil, "mise": nil, "nix": nil, "nix-shell": nil, "cmake": nil, "dotnet": nil, "composer": nil, "mix": nil, "sbt": nil, "lein": nil, "gulp": nil, "grunt": nil,
	"npm": nil, "yarn": nil, "pnpm": nil, "pip": nil, "pip3": nil, "cargo": nil, "run-parts": nil, "start-stop-daemon": nil, "go": {"run", "generate", "tool"},
}

// versionOnly are arguments with which a runner runs nothing.
var versionOnly = words("--version -v -V version --help")

// ofRunner notes a program that does what a file says.
func (s *script) ofRunner(name string, args simple) {
	subcommands, ok := runners[name]
	if !ok || len(args) == 1 && slices.Contains(versionOnly, args[0].text) {
		return
	}
	if subcommands == nil || len(args) > 0 && !args[0].known || slices.ContainsFunc(args, func(w word) bool { return slices.Contains(subcommands, w.text) }) {
		s.doubt("what %s runs is in files that are not looked into", name)
	}
}

// harmless reports whether a program is known to run no command that is in its arguments, or is looked into
// elsewhere.
func (c simple) harmless() bool {
	name := program(c[0].text)
	if _, ok := readers[name]; ok && name != "env" {
		return true
	}
	if slices.Contains(ordinary, name) || slices.Contains(shells, name) || name == "eval" || name == "trap" {
		return true
	}
	switch name {
	case "gfind", "mawk", "nawk", "gsed": // as find, awk and sed
		return true
	}
	if _, ok := wrappers[name]; !ok {
		return false
	}
	// Without an option it is plain where the command of a wrapper begins.
	return len(c) < 2 || !strings.HasPrefix(c[1].text, "-")
}

// mentions reports whether a program that may run others could be told to run this one.
func (c simple) mentions(words Words) (verdict, string) {
	if !c[0].known || len(words) == 0 || c.harmless() {
		return no, ""
	}
	want := program(words[0])
	for _, a := range c[1:] {
		if !a.known {
			return maybe, brief(c[0].text) + " may run what its arguments say, and one is made up at run time"
		}
		if want != "/" && !strings.Contains(strings.ToLower(a.text), want) {
			continue // no part can be it: to take them all apart is what costs
		}
		for _, part := range strings.FieldsFunc(a.text, separates) {
			if program(part) == want {
				return maybe, brief(c[0].text) + " may run what its arguments say"
			}
		}
	}
	return no, ""
}

// separates knows what may stand between words in a text that something takes apart, and in an option with its value.
func separates(r rune) bool { return strings.ContainsRune(" \t\r\n;|&()<>{}[]$`'\"=,:#!%^", r) }

// gitCommands are the subcommands of git itself, which no alias can replace.
var gitCommands = words("add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone " +
	"commit commit-graph commit-tree config count-objects credential describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch " +
	"for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep hash-object help hook index-pack init instaweb interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit " +
	"maintenance merge merge-base merge-file merge-tree mergetool mktag mktree mv name-rev notes pack-objects pack-refs patch-id prune pull push range-diff read-tree rebase reflog remote " +
	"repack replace request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status " +
	"stripspace submodule switch symbolic-ref tag unpack-file update-index update-ref update-server-info var verify-commit verify-pack verify-tag version whatchanged worktree write-tree daemon shell")

// gitShort are options of one letter whose value is a command, by the subcommand that has them. -c is one in front of
// all subcommands.
var gitShort = map[string]string{"clone": "cu", "grep": "O", "difftool": "x"}

// gitRemote are subcommands that are given a repository, which gitHelper finds to be one that a program reaches: in
// ext::command the command itself.
var (
	gitRemote = words("clone fetch pull push remote ls-remote archive submodule fetch-pack send-pack")
	gitHelper = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(-.*=)?[a-zA-Z0-9+_-]+::`)
	})
)

// ofGit notes a subcommand that may be an alias, of another one or of any program, and what makes one of git's own run
// programs.
func (s *script) ofGit(args simple) {
	subcommand := ""
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a.known && slices.Contains(gitRemote, subcommand) && gitHelper().MatchString(a.text) {
			s.doubt("git reaches %s through another program", brief(a.text))
		}
		if subcommand != "" {
			for _, letter := range gitShort[subcommand] {
				if inCluster(a.text, string(letter)) {
					s.doubt("the option %s of git %s can run programs", brief(a.text), subcommand)
				}
			}
			continue
		}
		switch {
		case !a.known:
			s.doubt("what git does is made up at run time")
			return
		case a.text == "-c":
			s.doubt("the option -c of git can run programs")
			i++
		case slices.Contains([]string{"-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"}, a.text):
			i++
		case strings.HasPrefix(a.text, "-"):
		default:
			subcommand = a.text
			switch {
			case !slices.Contains(gitCommands, a.text):
				s.doubt("git %s may be an alias, or a program", brief(a.text))
			case slices.Contains(gitRuns, a.text):
				s.doubt("git %s can run programs", a.text)
			}
		}
	}
}
