package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/executor/gate"
	"github.com/agent-executor/executor/protocol"
)

// A command that is denied is found wherever it stands; where it might stand, the user is asked.
func TestDenyIsNotEvaded(t *testing.T) {
	p := trusting(t, TrustFull, Rule{Command: Words{"rm"}, Action: Deny}, Rule{Command: Words{"git", "push"}, Action: Deny})
	for _, c := range []struct {
		script string
		want   Action
	}{
		{"rm x", Deny}, {"/bin/rm x", Deny}, {"/usr/bin/rm x", Deny}, {`\rm x`, Deny}, {`r''m x`, Deny}, {`"rm" x`, Deny}, {`r\m x`, Deny}, {"r\\\nm x", Deny}, {"RM x", Deny},
		{"ls; rm x", Deny}, {"ls && rm x", Deny}, {"true | rm x", Deny}, {"(rm x)", Deny}, {"{ rm x; }", Deny}, {"! rm x", Deny}, {"rm x &", Deny}, {"if rm x; then :; fi", Deny}, {"for i in 1; do rm $i; done", Deny}, {"while :; do rm x; done", Deny}, {"case a in a) rm x;; esac", Deny}, {"f() { rm x; }; f", Deny},
		{"echo $(rm x)", Deny}, {"echo `rm x`", Deny}, {`echo "$(rm x)"`, Deny}, {"cat <(rm x)", Deny}, {"cat <<EOF\n$(rm x)\nEOF", Deny}, {"x=$(rm x)", Deny}, {"X=1 rm x", Deny}, {"time rm x", Deny}, {"coproc rm x", Deny}, {"[[ $(rm x) ]]", Deny}, {"echo ${x:-$(rm x)}", Deny}, {"echo $(( $(rm x) ))", Deny},
		{"env rm x", Deny}, {"env X=1 rm x", Deny}, {"env -i rm x", Deny}, {"env -u X rm x", Deny}, {"sudo rm x", Deny}, {"sudo -u root rm x", Deny}, {"sudo -n -- rm x", Deny}, {"nohup rm x", Deny}, {"nice -n 5 rm x", Deny}, {"timeout 5 rm x", Deny}, {"timeout -s KILL 5 rm x", Deny}, {"xargs rm", Deny}, {"ls | xargs -n1 rm", Deny}, {"xargs -I{} rm {}", Deny}, {"command rm x", Deny}, {"exec rm x", Deny}, {"stdbuf -o0 rm x", Deny}, {"busybox rm x", Deny}, {"setsid rm x", Deny}, {"env env sudo rm x", Deny}, {"find . -exec rm {} ;", Deny}, {"find . -execdir env rm {} +", Deny}, {"flock /tmp/l rm x", Deny}, {"chroot /x rm y", Deny}, {"strace -f rm x", Deny}, {"watch rm x", Deny},
		{"bash -c 'rm x'", Deny}, {"sh -c 'rm x'", Deny}, {"bash -lc 'rm x'", Deny}, {"bash -e -c 'ls; rm x'", Deny}, {`bash -c "bash -c 'rm x'"`, Deny}, {"sudo sh -c 'rm x'", Deny}, {"eval rm x", Deny}, {"eval 'rm x'", Deny}, {`eval "r"m x`, Deny}, {"trap 'rm x' EXIT", Deny}, {"xargs sh -c 'rm x'", Deny}, {"watch 'rm x'", Deny},
		{"git push", Deny}, {"git push origin", Deny}, {"git -C x push", Deny}, {"git --no-pager push", Deny}, {"env git push", Deny}, {"git -c a=b push", Deny}, {"git --git-dir=x push", Deny},

		{"$X", Ask}, {"$(echo rm) x", Ask}, {"X=rm; $X x", Ask}, {"r? x", Ask}, {"/bin/r* x", Ask}, {"{rm,x}", Ask}, {"$'rm' x", Ask}, {"~/rm", Ask},
		{"bash x.sh", Ask}, {"bash < x", Ask}, {"echo rm x | bash", Ask}, {"bash <<EOF\nrm x\nEOF", Ask}, {"sh", Ask}, {". ./x", Ask}, {"source x", Ask}, {"./x", Ask}, {"bin/x", Ask}, {"/tmp/x", Ask}, {`bash -c "$X"`, Ask}, {"bash -c $X", Ask}, {"bash --rcfile x -c ls", Ask}, {"eval $X", Ask}, {"eval \"$X\"", Ask},
		{"python3 -c 'x'", Ask}, {"python3.12 x.py", Ask}, {"perl -e x", Ask}, {"node x", Ask}, {"ssh h ls", Ask}, {"vim x", Ask}, {"awk 'BEGIN{system(\"x\")}'", Ask}, {"awk '{print | \"sh\"}'", Ask}, {"awk -f x", Ask}, {"sed s/a/b/e x", Ask}, {"sed -f x y", Ask}, {"sed '1e x' y", Ask}, {"alias x=rm", Ask}, {"env -S 'rm x'", Ask}, {"sudo -i", Ask}, {"parallel", Ask}, {"ls | parallel", Ask}, {"env $X", Ask}, {"xargs $X", Ask}, {"find . -exec $X ;", Ask},
		{"git -c alias.p=push p", Ask}, {"git $X", Ask}, {"git pus?", Ask}, {"git config alias.p push", Ask}, {"git rebase -x 'ls' y", Ask}, {"xargs git", Ask}, {"GIT_PAGER='rm x' git log", Ask}, {"PATH=. ls", Ask}, {"export PATH=.", Ask}, {"LD_PRELOAD=x ls", Ask}, {"BASH_ENV=x ls", Ask}, {"env PAGER=x ls", Ask}, {"export $X", Ask}, {"tar xf x --to-command=y", Ask}, {"rsync -e x a b", Ask}, {"man -P x y", Ask}, {"sort --compress-program=x y", Ask}, {"make -f x", Ask},
		{"ls 'unclosed", Ask}, {"ls \r\nx", Ask}, {"ls \x01", Ask}, {"ls \xff", Ask}, {strings.Repeat("ls;", 40000), Ask}, {strings.Repeat("$(", 2000), Ask}, {"bash -c 'bash x'", Ask}, {"enable -f x y", Ask}, {"docker run x", Ask},

		{"ls", Allow}, {"echo rm x", Allow}, {"echo 'rm x'", Allow}, {"grep rm x", Allow}, {"git status", Allow}, {"git log push", Allow}, {"git commit -m 'push'", Allow}, {"cat rm", Allow}, {"go test ./...", Allow}, {"ls *.js", Allow}, {"timeout 5 grep rm x", Allow}, {"X=1 ls", Allow}, {"sed -n 1,2p file", Allow}, {"sed 's/a/the/' x", Allow}, {"awk '{print $1}' x", Allow}, {"find . -name '*.go'", Allow}, {"ls $HOME", Allow}, {"for f in *; do echo $f; done", Allow}, {"bash -c ls", Allow}, {"xargs grep foo", Allow}, {"sudo ls", Allow}, {"cat <<EOF\nrm x\nEOF", Allow},
	} {
		d := p.Decide(request(c.script))
		assert.Equal(t, c.want, d.Action, "%.80q: %s: %s", c.script, d.Rule, d.Why)
	}
}

func TestDenyWithoutAShell(t *testing.T) {
	p := trusting(t, TrustFull, Rule{Command: Words{"rm"}, Action: Deny})
	for _, c := range []struct {
		argv        []string
		interactive bool
		want        Action
	}{
		{[]string{"rm", "x"}, false, Deny}, {[]string{"bash", "-c", "rm x"}, false, Deny}, {[]string{"env", "rm"}, false, Deny}, {[]string{"sudo", "sh", "-c", "ls; rm x"}, false, Deny},
		{[]string{"bash"}, true, Ask}, {[]string{"python3"}, true, Ask}, {[]string{"cat"}, true, Allow}, {[]string{"ls", "$(rm x)"}, false, Allow}, {[]string{"$X"}, false, Allow}, {[]string{"./rm"}, false, Deny},
	} {
		d := p.Decide(gate.Request{Name: "process.start", Effect: capabilities.Effect{Argv: c.argv, Interactive: c.interactive}})
		assert.Equal(t, c.want, d.Action, "%v: %s", c.argv, d.Why)
	}
	r := request("ls")
	r.Effect.Env = map[string]string{"LD_PRELOAD": "x"}
	assert.Equal(t, Ask, p.Decide(r).Action)
}

func TestOptionsInARule(t *testing.T) {
	p := trusting(t, TrustFull, Rule{Command: Words{"rm", "-rf"}, Action: Deny}, Rule{Command: Words{"git", "push", "--force"}, Action: Deny})
	for script, want := range map[string]Action{
		"rm -rf x": Deny, "rm -fr x": Deny, "rm -r -f x": Deny, "rm x -rf": Deny, "rm -rvf x": Deny, "rm -r x": Allow, "rm x": Allow, "rm -r $X": Ask,
		"git push --force": Deny, "git push origin --force": Deny, "git --no-pager push --forc x": Deny, "git push --force=x": Deny, "git push": Allow, "git push origin": Allow,
	} {
		assert.Equal(t, want, p.Decide(request(script)).Action, script)
	}
}

// A rule that allows matches one plain command only.
func TestAllowMatchesWhatIsPlain(t *testing.T) {
	p := trusting(t, TrustAsk, Rule{Command: Words{"npm", "test"}, Action: Allow}, Rule{Command: Words{"make", "all"}, Exact: true, Action: Allow})
	for script, want := range map[string]Action{
		"npm test": Allow, "npm test -- -x": Allow, "npm   'test'": Allow, "npm test # why": Allow, "make all": Allow,
		"npm testing": Ask, "npm": Ask, "npm run test": Ask, "/tmp/npm test": Ask, "make all x": Ask, "make": Ask,
		"npm test; rm x": Ask, "npm test && rm x": Ask, "npm test | sh": Ask, "npm test > x": Ask, "npm test 2>&1": Ask, "npm test < x": Ask, "npm test &": Ask, "npm test $X": Ask, "npm test $(rm x)": Ask, "npm test `rm x`": Ask, "npm test *": Ask, "npm test ~": Ask, "npm test {a,b}": Ask, "X=1 npm test": Ask, "npm test <(rm x)": Ask, "npm test\nrm x": Ask, "! npm test": Ask, "(npm test)": Ask, "npm test \\\r\nrm x": Ask, "bash -c 'npm test'": Ask, "npm te$'st'": Ask, "npm test 'x": Ask,
	} {
		assert.Equal(t, want, p.Decide(request(script)).Action, script)
	}
	r := request("npm test")
	r.Effect.Env = map[string]string{"NODE_OPTIONS": "x"}
	assert.Equal(t, Ask, p.Decide(r).Action)
	r = request("npm test")
	r.Effect.Persistent = true
	assert.Equal(t, Ask, p.Decide(r).Action, "npm may be a function there")
}

func TestFirstRuleWins(t *testing.T) {
	rules := []Rule{
		{Tool: Names{"bash"}, Session: map[string]string{"project": "demo-*"}, Action: Allow},
		{Tool: Names{"process.*", "run_shell"}, Action: Deny, Reason: "use bash"},
		{Tool: Names{"*"}, Action: Ask},
	}
	p := trusting(t, TrustFull, rules...)
	session := func(metadata map[string]string) *capabilities.Session {
		return capabilities.NewSession(t.Context(), capabilities.SessionConfig{Assign: protocol.SessionAssignParams{Metadata: metadata}})
	}
	r := request("rm x")
	r.Session = session(map[string]string{"project": "demo-1"})
	assert.Equal(t, Decision{Allow, "rule 1 (allow tool bash session project=demo-*)", ""}, p.Decide(r))
	r.Session = session(map[string]string{"project": "other"})
	assert.Equal(t, Decision{Ask, "rule 3 (ask tool *)", ""}, p.Decide(r))
	r.Session = session(nil)
	r.Name = "process.start"
	assert.Equal(t, Decision{Deny, "rule 2 (deny tool process.*,run_shell)", "use bash"}, p.Decide(r))
	r.Session = nil
	r.Name = "bash"
	assert.Equal(t, Ask, p.Decide(r).Action, "no session has no metadata")
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"docs/a", "secrets", "src"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	require.NoError(t, os.Symlink("secrets", filepath.Join(dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secrets", "key"), nil, 0o600))
	require.NoError(t, os.Symlink("secrets/key", filepath.Join(dir, "docs", "key")))
	w, err := capabilities.OpenWorkspace(dir, []capabilities.Root{{Path: dir}})
	require.NoError(t, err)
	defer w.Close()
	session := capabilities.NewSession(t.Context(), capabilities.SessionConfig{Workspace: w})
	p := trusting(t, TrustAsk, Rule{Path: Names{"secrets/**", "**/*.pem", ".env"}, Action: Deny}, Rule{Path: Names{w.Dir() + "/src/gen"}, Action: Deny},
		Rule{Tool: Names{"write", "delete"}, Path: Names{"docs/**"}, Action: Allow})
	for _, c := range []struct {
		tool string
		tree bool
		path []string
		want Action
	}{
		{"write", false, []string{"docs/x"}, Allow}, {"write", false, []string{"./docs//x"}, Allow}, {"write", false, []string{w.Dir() + "/docs/x"}, Allow}, {"edit", false, []string{"docs/x"}, Ask}, {"write", false, []string{"src/x"}, Ask},
		{"write", false, []string{"docs/../src/x"}, Ask}, {"write", false, []string{"docs/x", "src/y"}, Ask}, {"delete", true, []string{"docs"}, Ask},
		{"write", false, []string{"secrets/x"}, Deny}, {"write", false, []string{"./docs/../secrets/x"}, Deny}, {"write", false, []string{w.Dir() + "/secrets/x"}, Deny}, {"write", false, []string{"link/x"}, Deny}, {"read", false, []string{"docs/key"}, Ask},
		{"write", false, []string{"a/b.pem"}, Deny}, {"write", false, []string{"b.pem"}, Deny}, {"write", false, []string{".env"}, Deny}, {"write", false, []string{"docs/.env"}, Allow}, {"write", false, []string{"x", "secrets/x"}, Deny}, {"write", false, []string{"src/gen"}, Deny},
		{"delete", true, []string{"."}, Ask}, {"move", true, []string{"src", "y"}, Ask}, {"write", false, []string{"../x"}, Ask}, {"write", false, []string{"docs/../../x"}, Ask},
	} {
		r := gate.Request{Name: c.tool, Session: session, Effect: capabilities.Effect{Paths: c.path, Tree: c.tree}}
		d := p.Decide(r)
		assert.Equal(t, c.want, d.Action, "%s %v: %s %s", c.tool, c.path, d.Rule, d.Why)
	}
	// What reads a tree with a denied path in it is asked about too, and what reads another is not.
	for path, want := range map[string]Action{".": Ask, "docs": Ask, "src": Ask} {
		r := gate.Request{Name: "grep", Session: session, Effect: capabilities.Effect{Paths: []string{path}, Tree: true, ReadOnly: true}}
		assert.Equal(t, want, p.Decide(r).Action, path)
	}
	p = trusting(t, TrustAsk, Rule{Path: Names{"secrets/*", "a/*/c", "x/y"}, Action: Deny})
	for path, want := range map[string]Action{".": Ask, "docs": Allow, "src": Allow, "secrets": Ask, "a": Ask, "a/b": Ask, "a/b/c/d": Allow, "x": Ask, "y": Allow} {
		r := gate.Request{Name: "grep", Session: session, Effect: capabilities.Effect{Paths: []string{path}, Tree: true, ReadOnly: true}}
		assert.Equal(t, want, p.Decide(r).Action, path)
	}
}

func TestRulesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		says string
	}{
		{Rule{}, "action: is missing"}, {Rule{Action: "maybe"}, `action: "maybe"`}, {Rule{Action: Deny, Command: Words{}}, "command: is empty"}, {Rule{Action: Deny, Command: Words{""}}, "command: is empty"},
		{Rule{Action: Allow, Exact: true}, "exact: is for"}, {Rule{Action: Deny, Exact: true, Command: Words{"x"}}, "exact: is for"}, {Rule{Action: Deny, Path: Names{"["}}, "is not a pattern"}, {Rule{Action: Deny, Path: Names{"../x"}}, "never matches"},
		{Rule{Action: Deny, Tool: Names{}}, "tool: is empty"}, {Rule{Action: Deny, Tool: Names{""}}, "a name is empty"}, {Rule{Action: Deny, Path: Names{"x"}, Command: Words{"x"}}, "make two rules"},
	} {
		_, err := New(Options{Rules: []Rule{{Action: Allow}, c.rule}})
		assert.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, "rule 2")
	}
	_, err := New(Options{Trust: "none"})
	assert.ErrorContains(t, err, "want full, ask or read-only")
}

func TestRuleAsJSON(t *testing.T) {
	var r Rule
	require.NoError(t, json.Unmarshal([]byte(`{"tool":"bash","command":"git push 'a b'","path":["x"],"action":"deny"}`), &r))
	assert.Equal(t, Rule{Tool: Names{"bash"}, Command: Words{"git", "push", "a b"}, Path: Names{"x"}, Action: Deny}, r)
	require.NoError(t, json.Unmarshal([]byte(`{"command":["a","b c"]}`), &r))
	assert.Equal(t, Words{"a", "b c"}, r.Command)
	for _, bad := range []string{`{"command":"a; b"}`, `{"command":"a $X"}`, `{"command":""}`, `{"command":5}`, `{"tool":{}}`, `{"path":[1]}`} {
		assert.Error(t, json.Unmarshal([]byte(bad), &r), bad)
	}
}

func TestWildcard(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{{"*", "", true}, {"*", "a/b", true}, {"a*c", "abc", true}, {"a*c", "abd", false}, {"?", "", false}, {"process.*", "process.start", true}, {"a*b*c", "aXbYc", true}, {"", "", true}, {"", "a", false}, {"a", "A", false}} {
		assert.Equal(t, c.want, wildcard(c.pattern, c.text), "%s %s", c.pattern, c.text)
	}
}

func BenchmarkDecide(b *testing.B) {
	p := trusting(b, TrustAsk, Rule{Command: Words{"rm"}, Action: Deny}, Rule{Command: Words{"go", "test"}, Action: Allow})
	for b.Loop() {
		p.Decide(request("grep -rn foo src | sort -u | head -20"))
	}
}

// Scripts that are made to be costly cost little, and pass for nothing.
func TestCostlyScripts(t *testing.T) {
	p := trusting(t, TrustAsk, Rule{Command: Words{"rm"}, Action: Deny})
	n := maxScript / 4
	if os.Getenv("EXECUTOR_STRESS") != "" {
		n = maxScript
	}
	for _, s := range []string{
		strings.Repeat("(", maxScript), strings.Repeat("(", maxParens), strings.Repeat("$(", n/2), strings.Repeat("{ ", n/2), strings.Repeat("! ", n/2), strings.Repeat("((", n/2),
		strings.Repeat("env -a ", n/7), strings.Repeat("env ", n/4), "find " + strings.Repeat("-exec find ", n/12), strings.Repeat("eval ", n/5), strings.Repeat("a|", n/2) + "a",
		strings.Repeat("sudo -u x timeout -s y ", n/24), strings.Repeat("if a; then ", n/11), strings.Repeat("`", n), strings.Repeat("\"$(", n/3), strings.Repeat("<<a ", n/4), strings.Repeat("${a:-", n/5), strings.Repeat("[[ a && ", n/8), strings.Repeat("ls;", n/3),
	} {
		began := time.Now()
		require.NotEqual(t, Allow, p.Decide(request(s)).Action, "%.20q", s)
		require.Less(t, time.Since(began), time.Minute, "%.20q", s)
	}
}
