package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/gate"
)

// tricks look like reading, and are not.
var tricks = []string{
	"sort -o a b", "sort -ro a b", "sort --output=a b", "sort --outp a", "sort --compress-program=x a", "sort -T . a", "sort a -o b",
	"rg --pre cat x", "rg --pre=./x y", "rg --hostname-bin=x y", "rg -z x", "rg --search-zip x",
	"git grep -O x", "git grep -Ovim x", "git grep --open-files-in-pager=x y", "git grep --open x",
	"sed s/x/y/e f", "sed -i s/x/y/ f", "sed -n -i 1p f", "sed -ni 1p f", "sed 'w out' f", "sed -n 1w f", "sed -n '1,3w out' f", "sed --in-place=x 1p f", "sed -f s f", "sed 1e f",
	`awk '{print | "sh"}' f`, `awk '{print > "out"}' f`, `awk 'BEGIN{system("rm x")}'`, "awk -f prog f", "gawk -i inplace '{print}' f", `awk '{print $1}' -f prog`, "awk '{print $1}' FS=x f",
	"git diff --ext-diff", "git log -p --ext-diff", "git diff --output=x", "git log --output=x", "git log --output x", "git show --textconv", "git diff --no-index a b",
	"git -c core.pager=x log", "git -c core.fsmonitor=x status", "git --exec-path=. status", "git -p log", "git --paginate log", "git -C /tmp status", "git --git-dir=x log", "git --config-env=a=b log",
	"git branch -D x", "git branch new", "git branch -m a b", "git tag v1", "git tag -d v1", "git remote add a b", "git remote show origin", "git stash", "git stash pop", "git config user.name x", "git config --global --edit",
	"git log --format=%G?", "git for-each-ref --format='%(signature)'", "git push", "git fetch", "git checkout x", "git reset", "git clean -fdx", "git help -w log", "git reflog expire --all", "git rev-parse --parseopt x", "git worktree add x", "git symbolic-ref HEAD x",
	"git log -U --output=x", "git diff --unified --output=x",
	"xxd -r a b", "xxd a b", "date -s 2020-01-01", "date --set=x", "date --set x", "date 01010101", "date -us now",
	"find . -exec rm {} ;", "find . -exec rm {} +", "find . -delete", "find . -fprint x", "find . -fprintf x y", "find . -fls x", "find . -ok rm {} ;", "find . -execdir x ;", "find -files0-from x",
	"env X=1 cmd", "env cmd", "env -i sh", "X=1 ls", "PATH=. ls", "uniq a b", "uniq -c a b", "tee x", "echo x | tee y", "less f", "more f", "man ls", "man -P x ls", "tar tf x", "tar xf x --to-command=y", "tar tf host:x",
	"hostname x", "hostname -F f", "hostname -b x", "ip addr add 1.2.3.4 dev x", "ip a", "tree -o x", "tree -R", "file -C", "file -C -m x", "file -f list", "file -z x", "shuf -o x", "shuf x", "split x", "csplit x y",
	"cat <(rm x)", "cat < <(rm x)", "echo a > f", "echo a >> f", "echo a >| f", "echo a >&f", "echo a &> f", "echo a <> f", "cat <<EOF\n$(rm x)\nEOF", "cat <<< $(rm x)", "cat < /dev/tcp/host/80", "echo x > /dev/tcp/host/80", "echo x >/dev/sda", "ls >&3", "ls {fd}>x", "ls 2>x",
	"ls $(rm x)", "ls `rm x`", `ls "$(rm x)"`, "ls $X", `ls "$X"`, "ls ${X:=y}", "ls $((x=1))", "$X", "$(echo ls)", "l* x", "/bin/l* x", "ls {-a,-l}", "sort {-o,x}", "ls $'-a'", "sort $'-o' x", `ls $"x"`, "ls @(a|b)", "ls ~/x",
	"sort *", "sort -- *", "ls *", "ls ?x", "ls [-]o", "sort \"-o\"*", "sort ''*", "uniq f*", "sort +*",
	"ls; rm x", "ls && rm x", "ls || rm x", "ls | sh", "ls |& sh", "ls & rm x", "ls &", "(ls)", "{ ls; }", "if true; then ls; fi", "for i in a; do ls; done", "while true; do ls; done", "f() { ls; }", "ls() { rm x; }; ls", "[[ -f x ]]", "((x=1))", "let x=1", "export PATH=.", "declare x=1", "alias ls=rm", "coproc ls", "time ls", "case x in x) ls;; esac",
	"eval ls", "exec ls", "command ls", "builtin echo", "source x", ". x", "bash -c ls", "sh -c ls", "bash x", "bash", "ls | bash -v", "bash -v", "python3 -v", "python3 -c 1", "xargs ls", "ls | xargs rm", "sudo ls", "nohup ls", "nice ls", "timeout 1 ls", "busybox ls",
	"./ls", "/tmp/ls", "bin/ls", "../ls", "ls.exe", "rm x", "touch x", "mkdir x", "cp a b", "mv a b", "ln a b", "dd if=a of=b", "chmod +x a", "curl x", "wget x", "npm test", "make", "go test", "go vet", "cargo --version", "go version", "trap 'rm x' EXIT", "read x", "set -e", "shopt -s x", "kill 1", "printf -v x y", "hash -p /tmp/x ls", "enable -f x y", "unset PATH", "cd x; ./y",
	`test -v 'a[$(rm x)]'`, `[ -v 'a[$(rm x)]' ]`, "[ -v a[`rm x`] ]", "test -R 'x[$(id)]'",
	"echo foo \\\r\nrm x", "ls\rrm x", "ls \x00", "ls \xff", "ls 'unclosed", "ls | ", "cat <<EOF", "fd -x rm", "fd --exec rm", "jq -f x", "base64 -o x", "diff -l a b", "grep --exclu x", "ps --foo", "du --files0-from=x", "wc --files0-from=x", "head --foo", "sort --files0-from=x", "sort -S 1 x", "",
	strings.Repeat("(", 5000), strings.Repeat("ls;", 30000), strings.Repeat("$(", 3000),
}

// reading is what people expect to be let through.
var reading = []string{
	"ls", "ls -la src", "ls -l | head -5", "cat README.md", "cat a b 2>/dev/null", "cat a 2>&1 | grep -n foo | wc -l", "grep -rn 'TODO' --include='*.go' .", "grep -E \"a|b\" x || true", "rg -n foo src", "rg --files -g '*.go'",
	"find . -name '*.go' -type f", "find . \\( -name a -o -name b \\) -print", "git status", "git status --short", "git log --oneline -20", "git log -n 5 --format='%h %s'", "git diff", "git diff HEAD~1 -- a.go", "git show HEAD:a.go", "git blame -L 1,5 x", "git branch", "git branch -a", "git --no-pager log -3", "git rev-parse --abbrev-ref HEAD", "git ls-files | wc -l", "git remote -v", "git stash list", "git config --get user.name", "git grep -n foo",
	"sed -n 10,20p f", "sed -n '1p;5,6p' f", "awk '{print $1}' f", "awk -F: '{print $1, $NF}' /etc/passwd", "sort -u f", "sort -t, -k2 f | uniq -c | sort -rn", "uniq -c f", "cut -d: -f1 f", "tr a-z A-Z", "head -n 5 f", "tail -20 f", "wc -l src/*.go", "ls src/*", "cd src && ls", "pwd; whoami", "date", "date +%s", "date -u +%Y", "uname -a", "hostname", "env", "printenv PATH", "echo hello >&2", "echo done > /dev/null", "! grep -q x y", "test -f x && echo yes", "[ -d src ] && ls src", "du -sh .", "df -h", "ps aux", "which go", "python3 --version", "file x", "stat x", "tree -L 2", "jq -r .a x", "diff -u a b", "md5sum x", "cat < f", "ls # a comment", "/bin/ls x", "ls \\\n -l", "cat 'a b' \"c d\"", "true", "readlink -f x",
}

func request(script string) gate.Request {
	return gate.Request{Name: "bash", Effect: capabilities.Effect{Script: script}}
}

func trusting(t testing.TB, trust Trust, rules ...Rule) *Policy {
	p, err := New(Options{Trust: trust, Rules: rules})
	require.NoError(t, err)
	return p
}

func TestTricksDoNotPassForReading(t *testing.T) {
	ask, read := trusting(t, TrustAsk), trusting(t, TrustReadOnly)
	for _, s := range tricks {
		assert.Equal(t, Ask, ask.Decide(request(s)).Action, "%.60q", s)
		assert.Equal(t, Deny, read.Decide(request(s)).Action, "%.60q", s)
	}
}

func TestReading(t *testing.T) {
	p := trusting(t, TrustReadOnly)
	for _, s := range reading {
		d := p.Decide(request(s))
		assert.Equal(t, Allow, d.Action, "%q: %s", s, d.Why)
	}
}

func TestReadingWithoutShell(t *testing.T) {
	p := trusting(t, TrustReadOnly)
	for _, c := range []struct {
		argv []string
		want Action
	}{
		{[]string{"ls", "-l"}, Allow}, {[]string{"cat", "$(rm x)"}, Allow}, {[]string{"ls", "*"}, Allow}, // no shell reads them
		{[]string{"bash", "-c", "ls"}, Deny}, {[]string{"sort", "-o", "x"}, Deny}, {[]string{"./ls"}, Deny}, {[]string{""}, Deny}, {[]string{"ls\x00"}, Deny},
	} {
		r := gate.Request{Name: "process.start", Method: true, Effect: capabilities.Effect{Argv: c.argv}}
		assert.Equal(t, c.want, p.Decide(r).Action, c.argv)
	}
}

// What surrounds a command can give its words another meaning.
func TestReadingInAStrangePlace(t *testing.T) {
	p := trusting(t, TrustAsk)
	for _, name := range []string{"GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "LESSOPEN", "PATH", "LD_PRELOAD", "BASH_ENV", "BASH_FUNC_ls%%", "RIPGREP_CONFIG_PATH", "FOO"} {
		r := request("git diff")
		r.Effect.Env = map[string]string{name: "x"}
		assert.Equal(t, Ask, p.Decide(r).Action, name)
	}
	r := request("ls")
	r.Effect.Env = map[string]string{"LC_ALL": "C", "NO_COLOR": "1"}
	assert.Equal(t, Allow, p.Decide(r).Action)
	r = request("ls")
	r.Effect.Persistent = true
	assert.Equal(t, Ask, p.Decide(r).Action, "ls may be a function there")

	r = request("git diff")
	r.Session = capabilities.NewSession(t.Context(), capabilities.SessionConfig{Env: map[string]string{"GIT_EXTERNAL_DIFF": "x"}})
	assert.Equal(t, Ask, p.Decide(r).Action, "a variable of the session")
	r = gate.Request{Name: "process.start", Effect: capabilities.Effect{Argv: []string{"git", "log"}, Interactive: true}}
	assert.Equal(t, Ask, p.Decide(r).Action, "on a terminal it starts a pager")
	r.Effect.Interactive = false
	assert.Equal(t, Allow, p.Decide(r).Action)

	dir := t.TempDir()
	w, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	defer w.Close()
	for path, want := range map[string]Action{
		"/usr/bin:/bin": Allow, "": Ask, ".:/bin": Ask, "/bin:": Ask, "node_modules/.bin:/bin": Ask, dir + "/bin:/bin": Ask, "/bin:" + dir: Ask,
	} {
		p, err := New(Options{Trust: TrustAsk, Path: func() string { return path }})
		require.NoError(t, err)
		r := request("ls")
		r.Session = capabilities.NewSession(t.Context(), capabilities.SessionConfig{Workspace: w})
		assert.Equal(t, want, p.Decide(r).Action, path)
	}
}

func TestTrustOfOtherTools(t *testing.T) {
	for _, c := range []struct {
		effect capabilities.Effect
		ask    Action
		read   Action
	}{
		{capabilities.Effect{ReadOnly: true}, Allow, Allow},
		{capabilities.Effect{Follows: true}, Allow, Allow},
		{capabilities.Effect{}, Ask, Deny},
		{capabilities.Effect{Paths: []string{"x"}}, Ask, Deny},
	} {
		r := gate.Request{Name: "x", Effect: c.effect}
		assert.Equal(t, Allow, trusting(t, TrustFull).Decide(r).Action)
		assert.Equal(t, c.ask, trusting(t, TrustAsk).Decide(r).Action)
		assert.Equal(t, c.read, trusting(t, TrustReadOnly).Decide(r).Action)
	}
}

// Nothing panics, and nothing that writes or is not known passes for reading.
func FuzzReadOnly(f *testing.F) {
	for _, s := range append(tricks, reading...) {
		if len(s) < 1000 {
			f.Add(s)
		}
	}
	p := trusting(f, TrustReadOnly, Rule{Command: Words{"zzz", "-q"}, Action: Deny})
	f.Fuzz(func(t *testing.T, text string) {
		d := p.Decide(request(text))
		if text == "" || d.Action != Allow {
			return
		}
		for _, bad := range []string{"$(", "`", "<(", ">(", "<<", "\r", "\x00", "&!", "\\\r"} {
			// They may stand between quotes only.
			if i := strings.Index(text, bad); i >= 0 && !strings.ContainsAny(text[:i], `'"\#`) {
				t.Fatalf("%q passes for reading", text)
			}
		}
		for _, c := range parse(text).commands {
			if _, ok := readers[program(c[0].text)]; !ok {
				t.Fatalf("%q passes for reading, and runs %q", text, c[0].text)
			}
		}
		if strings.Contains(text, ">") && !strings.ContainsAny(text, `'"\#`) {
			for _, part := range strings.Split(text, ">")[1:] {
				part = strings.TrimLeft(strings.TrimPrefix(part, ">"), " \t")
				if part != "" && !strings.HasPrefix(part, "/dev/null") && !strings.HasPrefix(part, "&") {
					t.Fatalf("%q passes for reading, and writes", text)
				}
			}
		}
	})
}
