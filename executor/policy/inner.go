package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// shells are programs that take a script.
var shells = words("sh bash dash ash zsh ksh mksh fish rbash pwsh powershell cmd")

// wrappers start the command in their arguments, and have so many operands before it.
var wrappers = map[string]int{
	"command": 0, "builtin": 0, "exec": 0, "nohup": 0, "setsid": 0, "time": 0, "nice": 0, "ionice": 0, "chrt": 1, "taskset": 1,
	"timeout": 1, "gtimeout": 1, "stdbuf": 0, "unbuffer": 0, "env": 0, "sudo": 0, "doas": 0, "pkexec": 0, "runuser": 0, "xargs": 0, "parallel": 0, "watch": 0,
	"unshare": 0, "nsenter": 0, "chroot": 1, "flock": 1, "strace": 0, "ltrace": 0, "busybox": 0, "toybox": 0, "setpriv": 0, "setarch": 1, "linux32": 0, "linux64": 0,
	"prlimit": 0, "systemd-run": 0, "dbus-run-session": 0, "caffeinate": 0, "proot": 0, "fakeroot": 0, "bwrap": 0, "firejail": 0, "catchsegv": 0, "coproc": 0, "noglob": 0,
	"nocorrect": 0, "rlwrap": 0, "script": 1, "npx": 0, "bunx": 0, "uvx": 0, "pipx": 1, "uv": 1, "poetry": 1, "pipenv": 1, "bundle": 1, "direnv": 1, "mise": 1,
}

// opaque are programs that take commands in a form that is not looked into.
var opaque = words("source . su ssh rsh slogin mosh at batch crontab vi vim nvim view ex ed emacs nano pico gdb lldb expect tclsh wish screen tmux dtach " +
	"osascript perl ruby irb node nodejs deno bun php lua luajit guile R Rscript julia ghci groovy jshell scala python python2 python3 ipython pypy pypy3 " +
	"m4 sqlite3 psql mysql coreutils docker podman kubectl nerdctl lxc-attach machinectl enable bind complete compgen hash alias unalias mapfile readarray fc")

// carriers are options of programs whose value is a command, or is where commands come from.
var carriers = map[string][]string{
	"git":   {"--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--exec", "--open-files-in-pager", "--ext-diff", "--extcmd", "--template"},
	"tar":   {"--to-command", "--checkpoint-action", "-I", "--use-compress-program", "-F", "--info-script", "--new-volume-script", "--rsh-command", "--rmt-command"},
	"rsync": {"-e", "--rsh", "--rsync-path"}, "scp": {"-S", "-o"}, "sftp": {"-S", "-o", "-D"}, "sort": {"--compress-program"}, "rg": {"--pre", "--hostname-bin"},
	"man": {"-P", "--pager", "-H", "--html"}, "zip": {"-TT", "--unzip-command"}, "less": {"+", "-k", "--lesskey-file", "--lesskey-src", "--lesskey-content"}, "more": {"+!"}, "make": {"-f", "--file", "--makefile", "--eval", "-C"},
	"gmake": {"-f", "--file", "--makefile", "--eval", "-C"}, "curl": {"-K", "--config", "--engine"}, "wget": {"--use-askpass", "-e", "--execute"}, "tcpdump": {"-z"}, "split": {"--filter"},
	"fzf": {"--preview", "--bind"}, "fd": {"-x", "--exec", "-X", "--exec-batch"}, "fdfind": {"-x", "--exec", "-X", "--exec-batch"}, "go": {"-exec", "-toolexec", "-vettool", "-ldflags", "-overlay"},
	"gcc": compiler, "cc": compiler, "g++": compiler, "c++": compiler, "clang": compiler, "ld": {"-plugin", "--plugin", "@"}, "ar": {"--plugin"}, "nm": {"--plugin"}, "strip": {"--plugin"},
	"rustc": {"-C", "--codegen", "-Z", "@"}, "javac": {"-J", "-processor", "--processor", "@"}, "printf": {"-v"},
	"install": {"--strip-program"}, "patch": {"-e", "--ed"}, "mount": {"-t", "--types"},
	"ssh-keygen": {"-D", "-w"}, "openssl": {"engine", "-engine", "-provider", "-provider-path", "-config"},
	"gpg": {"--agent-program", "--dirmngr-program", "--keyboxd-program", "--photo-viewer", "--exec-path", "--options", "--homedir"},
}

// compiler are those of a compiler.
var compiler = words("-wrapper -B -fplugin -specs --specs -fuse-ld -load -Xclang -Xlinker -Wl,-plugin, -Wl,--plugin, @")

// clusters are programs whose options of one letter may stand together: -avze.
var clusters = words("rsync scp sftp tar man curl wget fd fdfind tcpdump less ssh-keygen mount patch")

// gitRuns are subcommands of git that take commands.
var gitRuns = words("bisect rebase submodule filter-branch difftool mergetool config daemon send-email instaweb shell for-each-repo hook")

// systemDirs are where the programs of the system are. One that is named by a path elsewhere may be anything, also
// what was written a moment ago.
var systemDirs = words("/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin /usr/libexec")

// inner notes the commands in the arguments of a command.
func (s *script) inner(c simple) {
	if !c[0].known {
		s.doubt("the program is made up at run time")
		return
	}
	name := program(c[0].text)
	if dir := path.Dir(c[0].text); strings.ContainsAny(c[0].text, `/\`) && !slices.Contains(systemDirs, dir) {
		s.doubt("%s is no program of the system", brief(c[0].text))
	}
	args := c[1:]
	switch {
	case slices.Contains(shells, name):
		s.ofShell(name, args)
	case name == "eval", name == "trap":
		s.ofText(name, args)
	case slices.Contains(opaque, name), versioned().MatchString(name):
		s.doubt("what %s runs is not looked into", name)
	case name == "find" || name == "gfind":
		s.ofFind(args)
	case name == "awk" || name == "gawk" || name == "mawk" || name == "nawk" || name == "sed" || name == "gsed":
		s.ofFilter(name, args)
	default:
		if operands, ok := wrappers[name]; ok {
			s.ofWrapper(name, args, operands)
		}
		s.ofCarrier(name, args)
		s.ofRunner(name, args)
		if name == "git" {
			s.ofGit(args)
		}
	}
}

// versioned are interpreters with their version in the name.
var versioned = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(python|perl|ruby|node|php|lua|pypy|tclsh|guile)-?[0-9.]+$`)
})

// ofShell looks into sh -c; what else a shell runs is a file, or comes to it later.
func (s *script) ofShell(name string, args simple) {
	for i, a := range args {
		switch {
		case !a.known:
			s.doubt("what %s runs is made up at run time", name)
			return
		case !strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "+"):
			s.doubt("what is in the script %s is not looked into", brief(a.text))
			return
		case a.text == "-o" || a.text == "-O" || a.text == "+O" || a.text == "+o" || a.text == "--rcfile" || a.text == "--init-file":
			s.doubt("the options of %s are not looked into", name)
			return
		case len(a.text) > 1 && a.text[1] != '-' && strings.Contains(a.text, "c"):
			if i+1 >= len(args) || !args[i+1].known || strings.HasPrefix(args[i+1].text, "-") {
				s.doubt("what %s runs is made up at run time", name)
				return
			}
			s.nested(args[i+1].text)
			return
		}
	}
	s.doubt("what %s reads is not looked into", name)
}

// ofText looks into builtins whose arguments are a script.
func (s *script) ofText(name string, args simple) {
	var parts []string
	for _, a := range args {
		if !a.known {
			s.doubt("what %s runs is made up at run time", name)
			return
		}
		if a.text != "--" {
			parts = append(parts, a.text)
		}
	}
	switch {
	case name == "eval":
		s.nested(strings.Join(parts, " "))
	case len(parts) > 0 && parts[0] != "-":
		s.nested(parts[0])
	}
}

// ofWrapper looks into the command in the arguments of another. Where it begins is not quite sure, as an option may
// have a value or not: so it is looked into at every place where it may.
func (s *script) ofWrapper(name string, args simple, operands int) {
	afterOption := false
	for i, a := range args {
		if s.full() {
			return
		}
		if name == "parallel" || name == "xargs" && (strings.HasPrefix(a.text, "-I") || strings.HasPrefix(a.text, "-i") || strings.HasPrefix(a.text, "-J") || strings.HasPrefix(a.text, "--r")) {
			s.doubt("what %s runs is put together from its input", name)
		}
		switch {
		case !a.known:
			s.doubt("what %s runs is made up at run time", name)
			return
		case strings.HasPrefix(a.text, "-") && len(a.text) > 1:
			if name == "env" && (strings.HasPrefix(a.text, "-S") || strings.HasPrefix(a.text, "--s") || strings.HasPrefix(a.text, "-vS")) ||
				(name == "script" || name == "flock" || name == "watch") && (a.text == "-c" || strings.HasPrefix(a.text, "--command")) ||
				name == "npx" && (a.text == "-c" || strings.HasPrefix(a.text, "--call")) {
				s.doubt("what %s runs is not looked into", name)
			}
			afterOption = !strings.Contains(a.text, "=")
			continue
		}
		if variable, _, ok := strings.Cut(a.text, "="); ok && (name == "env" || name == "sudo" || name == "doas") {
			s.assigned(variable)
			afterOption = false
			continue
		}
		if !afterOption {
			operands--
		}
		if afterOption || operands < 0 {
			in := args[i:]
			if name == "xargs" || name == "parallel" { // which add arguments
				in = append(slices.Clip(in), word{})
			}
			s.depth++
			s.add(in)
			s.depth--
		}
		if !afterOption && operands < 0 {
			if strings.ContainsAny(a.text, " \t\n;|&") && (name == "watch" || name == "parallel" || name == "xargs" || name == "env") {
				s.nested(a.text)
			}
			return
		}
		afterOption = false
	}
	if len(args) > 0 && name != "xargs" && name != "env" && name != "exec" && name != "command" && name != "time" || name == "parallel" {
		s.doubt("what %s runs is not in its arguments", name) // sudo -i
	}
}

// ofFind looks into the commands that find runs.
func (s *script) ofFind(args simple) {
	plain := args
	named := func(w word) bool { return strings.Contains(w.text, "{}") } // which stands for the name of a file
	if slices.ContainsFunc(args, named) {
		plain = slices.Clone(args)
		for i, w := range plain {
			if named(w) {
				plain[i] = word{}
			}
		}
	}
	for i, a := range args {
		if s.full() {
			return
		}
		if !a.known && !a.glob {
			s.doubt("an argument of find is made up at run time")
		}
		switch a.text {
		case "-exec", "-execdir", "-ok", "-okdir":
			if i+1 < len(args) {
				s.depth++
				s.add(plain[i+1:])
				s.depth--
			}
		}
	}
}

// What lets a filter run programs, or may: a command e of sed, a flag e of its s, an s whose separator is a letter.
var (
	awkRuns = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`system|getline|\||@|>`)
	})
	sedRuns = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[;{}0-9$/!\s,~+])e|[^a-zA-Z0-9\s][a-zA-Z0-9]*e[a-zA-Z0-9]*\s*([;}#\n]|$)|(^|[;{}\s0-9$/!])[sy][a-zA-Z0-9]`)
	})
)

// ofFilter looks for what lets awk or sed run programs.
func (s *script) ofFilter(name string, args simple) {
	sed := strings.HasSuffix(name, "sed")
	operands := 0
	for i, a := range args {
		option := strings.HasPrefix(a.text, "-")
		switch {
		case !a.known && !a.glob:
			s.doubt("what %s does is made up at run time", name)
			return
		case strings.HasPrefix(a.text, "-f") || strings.HasPrefix(a.text, "--fi") || strings.HasPrefix(a.text, "--in") && !sed ||
			!sed && (a.text == "-i" || strings.HasPrefix(a.text, "-l") || strings.HasPrefix(a.text, "--lo") || strings.HasPrefix(a.text, "-E") || strings.HasPrefix(a.text, "--ex")):
			s.doubt("the script of %s is not looked into", name)
			return
		case !option:
			operands++
		}
		program := !sed || operands == 1 && !option || option && strings.Contains(a.text, "e") || i > 0 && strings.HasSuffix(args[i-1].text, "e") || i > 0 && strings.HasPrefix(args[i-1].text, "--ex")
		if sed && program && sedRuns().MatchString(strings.TrimPrefix(a.text, "-e")) && !plainSedOption(a.text) || !sed && program && awkRuns().MatchString(a.text) {
			s.doubt("what %s runs is not looked into", name)
			return
		}
	}
}

// plainSedOption knows the options of sed that look like a script with an e.
func plainSedOption(o string) bool {
	return slices.Contains([]string{"-e", "-ne", "-Ee", "-nEe", "-re", "-nre", "-ie", "-E", "--expression", "--quiet", "--silent", "--separate", "--regexp-extended"}, o)
}

// ofCarrier looks for options whose value is a command.
func (s *script) ofCarrier(name string, args simple) {
	for i, a := range args {
		for _, o := range carriers[name] {
			if carries(name, o, a.text) || name == "tar" && i == 0 && carries(name, o, "-"+a.text) { // tar xIf
				s.doubt("the option %s of %s can run programs", brief(a.text), name)
			}
		}
	}
}

// carries reports whether an argument is an option, with its value perhaps.
func carries(name, option, arg string) bool {
	switch {
	case arg == option || strings.HasPrefix(arg, option+"="):
		return true
	case strings.HasPrefix(option, "--"): // it may be shortened
		return len(arg) > 4 && strings.HasPrefix(option, strings.SplitN(arg, "=", 2)[0])
	case len(option) <= 2 || strings.HasPrefix(option, "-f") || strings.HasSuffix(option, ","): // its value follows at once
		return strings.HasPrefix(arg, option) || len(option) == 2 && option[0] == '-' && slices.Contains(clusters, name) && inCluster(arg, option[1:])
	}
	return strings.HasPrefix(option, "-") && arg == "-"+option // -provider is also --provider
}

// inCluster reports whether an option of one letter is among those that stand together.
func inCluster(arg, letter string) bool {
	return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && strings.Contains(arg, letter)
}

// interactive notes that input comes later: a shell, or what reads programs, runs it.
func (s *script) interactive() {
	for _, c := range s.commands {
		if name := program(c[0].text); c[0].known && (slices.Contains(shells, name) || slices.Contains(opaque, name)) {
			s.doubt("%s gets its input later", name)
		}
	}
}

// carriesCommands knows variables that name programs, or files with commands in them.
func carriesCommands(name string) bool {
	if harmlessVariable(name) {
		return false
	}
	return variables().MatchString(strings.ToUpper(name))
}

var variables = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(PATH|IFS|ENV|SHELL|SHELLOPTS|BASHOPTS|BASH_.*|PROMPT_COMMAND|PS[0-4]|CDPATH|FPATH|ZDOTDIR|LD_.*|DYLD_.*|GIT_.*|SSH_.*|GCONV_PATH|LOCPATH|` +
		`.*PAGER.*|.*EDITOR.*|VISUAL|BROWSER|LESS.*|MAN.*|PERL.*|PYTHON.*|RUBY.*|NODE_.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|.*_COMMAND|.*_RSH|.*ASKPASS|` +
		`TAR_OPTIONS|RIPGREP_CONFIG_PATH|GREP_OPTIONS|MAKE.*|MFLAGS|CC|CXX|LD|AR|GOFLAGS|GOTOOLCHAIN|RUSTC.*|CARGO_.*|NPM_CONFIG_.*|HOME|XDG_.*|EXINIT|VIMINIT|PARALLEL|POSIXLY_CORRECT|TMUX|TERMINFO.*)$`)
})

// harmlessVariable knows those that only change how something is shown.
func harmlessVariable(name string) bool {
	switch name {
	case "LANG", "LANGUAGE", "TZ", "TERM", "NO_COLOR", "CLICOLOR", "FORCE_COLOR", "COLUMNS", "LINES", "CI":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// brief keeps a message short.
func brief(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:59]) + "…"
	}
	return s
}

func words(text string) []string { return strings.Fields(text) }
