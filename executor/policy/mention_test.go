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
