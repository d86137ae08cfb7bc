package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A program that may run others is asked about when its arguments say what a rule is about.
func TestDenyBehindUnknownPrograms(t *testing.T) {
	p := trusting(t, TrustFull, Rule{Command: Words{"git", "push"}, Action: Deny})
	for _, script := range []string{
		"timeout -k1 5 git push", "timeout -s9 5 git push", "timeout -k 1 5 /usr/bin/git push", "flock -w1 f git push", "flock -w 1 f -c 'git push'", "taskset -c 0 git push", "chrt -r 1 git push", "choom -n 5 -- git push",
		"perf stat git push", "valgrind git push", "ssh-agent git push", "sg group -c 'git push'", "sg group -c 'ls;git push'", "newgrp x git push", "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push", "start-stop-daemon --exec /usr/bin/git -- push",
		"run-parts d", "unknown --cmd=git push", "unknown 'a|git push'", "unknown $X", "f() { x; }; f git push", "npm run x", "npm test", "make", "make all", "go run x.go", "cargo run",
		"xargs -I{} sh -c {}", "xargs -i sh -c {}", "xargs --replace sh -c {}", "xargs -n1 sh -c", "xargs -I% % push", "parallel ::: x", "parallel ls", "find . -exec sh -c {} ;", "find . -exec {} push ;", "find . -exec unknown {} ;",
		"git p", "git -C x p", "git --no-pager p origin", "git -c a=b p",
	} {
		d := p.Decide(request(script))
		assert.NotEqual(t, Allow, d.Action, script)
	}
	for _, script := range []string{"cp git push", "mv a git", "mkdir git", "tar cf git.tar x", "echo git push", "gcc git.c", "go build ./git", "go test ./...", "go build $X", "npm --version", "make --version", "unknown gitx", "unknown a b",
		"git status", "git -C x status", "git commit -m 'use git'", "git", "git --version", "xargs grep foo", "xargs -n1 ls", "find . -exec grep git {} +", "timeout 5 grep git x"} {
		d := p.Decide(request(script))
		assert.Equal(t, Allow, d.Action, "%s: %s", script, d.Why)
	}
}

// Programs that run others by an option, a plugin or a name that is looked up are asked about whatever a rule is
// about, and their everyday use is not.
func TestDenyBehindOptions(t *testing.T) {
	p := trusting(t, TrustFull, Rule{Command: Words{"rm"}, Action: Deny})
	for _, script := range []string{
		"git clone 'ext::sh -c x'", "git fetch ext::x", "git ls-remote 'ext::sh -c x% y'", "git remote add e ext::x", "git submodule add x", "git -c core.sshCommand=x fetch", "git -c core.fsmonitor=x status", "git clone -c core.sshCommand=x u", "git clone -qc a=b u", "git clone --config a=b u",
		"git clone -u x u", "git clone --upl=x u", "git clone --template=x u", "git fetch --upload-pack x u", "git push --receive-pack=x", "git grep -Ox y", "git grep -nO y", "git grep --open-files-in-pager=x y", "git difftool -x y", "git archive --exec=x --remote=y", "git --exec-path=x status", "git $X status", "git diff --ext-diff",
		"install --strip-program=x -s a b", "install -s --strip-prog=x a b", "less +!x f", "less +F f", "less --lesskey-src=x f", "ssh-keygen -D ./lib.so", "ssh-keygen -qD lib", "ssh-keygen -w lib", "openssl engine -t x", "openssl req -engine x", "openssl req --provider x", "openssl req -config x", "gpg --photo-viewer x -k", "gpg --agent-program=x -k",
		"fc -s", "fc -e x", "npx cowsay", "npx --yes x", "bunx x", "uvx x", "pipx run x", "uv run x", "poetry run x", "bundle exec x", "nix run x", "cmake -P x", "rsync -avze x a b", "tar xIf x y", "tar -cIf x y", "curl -sK x", "scp -ro x=y a b", "gcc -fplugin=x a.c", "gcc -Wl,-plugin,x a.c", "clang -Xclang -load a.c",
		"go build -ldflags=-extld=x", "rustc -Clinker=x a.rs", "javac -J-agentpath:x A.java", "patch -e x y", "ip netns exec a rm x",
	} {
		d := p.Decide(request(script))
		assert.NotEqual(t, Allow, d.Action, script)
	}
	for _, script := range []string{"git clone https://example.com/a.git", "git clone git@example.com:a/b", "git clone ssh://x/y", "git push -u origin main", "git switch -c x", "git add -u", "git clean -fdx", "git stash -u", "git log --format=%h::%s", "git commit -m 'a::b c'", "git commit -c HEAD",
		"git commit -m 'std::move: x'", "git show HEAD:a::b", "git log -cc", "install -m 755 a b", "less f", "ssh-keygen -t ed25519 -f x", "openssl rand -hex 8", "openssl version", "gpg -k", "tsc -p .", "rsync -av a b", "tar xzf a", "tar czf a b", "curl -sSfL https://example.com", "gcc -O2 -Wall -Wl,-rpath,x a.c", "ip addr", "patch -p1"} {
		d := p.Decide(request(script))
		assert.Equal(t, Allow, d.Action, "%s: %s", script, d.Why)
	}
}

// The rules are gone through in their order: what is allowed behind a rule that may be about it is asked about.
func TestAllowInFrontOfDeny(t *testing.T) {
	deny, allow := Rule{Command: Words{"git", "push"}, Action: Deny}, Rule{Command: Words{"make"}, Action: Allow}
	assert.Equal(t, Ask, trusting(t, TrustFull, deny, allow).Decide(request("make all")).Action)
	assert.Equal(t, Allow, trusting(t, TrustFull, allow, deny).Decide(request("make all")).Action)
}

// What bash evaluates a second time must be plain.
func TestDenyInTextThatIsEvaluatedAgain(t *testing.T) {
	p := trusting(t, TrustFull, Rule{Command: Words{"git", "push"}, Action: Deny})
	for _, script := range []string{
		"[[ -v 'a[$(git push)]' ]]", "[ -v 'a[$(git push)]' ]", "test -v 'a[$(git push)]'", "[[ 'a[$(git push)]' -eq 1 ]]", "x='a[$(git push)]'; [[ $x -eq 1 ]]", "x='a[$(git push)]'; [[ x -gt 1 ]]", "let 'x=a[$(git push)]'", "read 'a[$(git push)]' <<< 1",
		"x='a[$(git push)]'; echo $((x))", "x='a[`git push`]'; ((x))", "x='$(git push)'; echo ${x@P}", "compgen -C 'git push' x", "compgen -W '$(git push)'", "x='a[$(git push)]'; echo ${b[x]}", "x='a[$(git push)]'; b[x]=1", "printf -v 'a[$(git push)]' x", "wait -p 'a[$(git push)]' -n",
		"unset 'a[$(git push)]'", `x="a[\$(git push)]"; echo $((x))`, `x=a[\$\(git\ push\)]; echo $((x))`, `x=$'a[\x24(git push)]'; echo $((x))`, "x=$(cat f); echo $((x))", "read x < f; echo $((x))", "for x in *; do echo $((x)); done", "x='a[$(git push)]'; echo ${y:x}", "x='a[$(git push)]'; echo ${!x}",
		"x='a[$'; y='(git push)]'; z=$x$y; echo $((z))", "bash -c 'x='\\''a[$(git push)]'\\''; echo $((x))'", "o=-v; [ $o 'a[$(git push)]' ]", "x='a[$(git push)]'; for ((i=x;;)); do :; done", "declare -i x='a[$(git push)]'", "command test -v 'a[$(git push)]'",
	} {
		assert.NotEqual(t, Allow, p.Decide(request(script)).Action, script)
	}
	for _, script := range []string{"echo $((1+2))", "x=1; echo $((x+1))", "for i in 1 2; do x=$((x+i)); done", "[[ $x -eq 1 ]]", "[ -n \"$(ls)\" ]", "[[ -f x ]] && ls", "echo '$(git push)'", "x=$(ls); echo $x", "a=(1 2); echo ${a[0]} ${a[@]}"} {
		d := p.Decide(request(script))
		assert.Equal(t, Allow, d.Action, "%s: %s", script, d.Why)
	}
	r := request("echo $((x))")
	r.Effect.Persistent = true
	assert.Equal(t, Ask, p.Decide(r).Action, "an earlier call may have set it")
}
