//go:build unix

package shell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever becomes of the shell while it runs a command: that has run once.
func TestNoCommandRunsTwice(t *testing.T) {
	b := newBench(t, Options{})
	log := filepath.Join(b.dir, "log")
	for _, command := range []string{
		`exec bash -c 'sleep 0.3; echo bye; exit 4'`,
		`exec sleep 0.3`,
		`exec true`,
		`exec 10>&- 11>&-; for i in 1 2 3; do sleep 0.1; done`,
		`for fd in /proc/self/fd/*; do eval "exec ${fd##*/}>&-"; done; sleep 0.3`,
		`trap "exec sleep .4" EXIT; exit 0`,
		`source <(echo "exec sleep .3")`,
		`[ -n "$X" ] || { export X=1; exec bash -c "sleep 0.2"; }`,
		`exit 3`,
		`kill -9 $$`,
		`sleep 0.3; kill -9 $$`,
		`ulimit -n 3`,
	} {
		t.Run(command, func(t *testing.T) {
			require.NoError(t, os.WriteFile(log, nil, 0o600))
			r := b.shFor("echo once >> log; "+command, 8000)
			text, err := os.ReadFile(log)
			require.NoError(t, err)
			assert.Equal(t, "once\n", string(text))
			assert.False(t, r.TimedOut, r.text)
			if strings.Contains(command, "bye") {
				assert.Equal(t, "bye\n", r.Output)
				assert.Equal(t, 4, r.code())
				assert.True(t, r.StateLost)
			}
			if r = b.sh("echo next"); r.Output != "next\n" { // the shell was of no use any more
				assert.True(t, r.StateLost, r.text)
				assert.Equal(t, "next\n", b.sh("echo next").Output)
			}
		})
	}
}

// A new shell goes on where the one before was at its end, or says where it is instead.
func TestNewShellIsWhereTheOldOneWas(t *testing.T) {
	b := newBench(t, Options{})
	for _, command := range []string{"cd /usr; exit 3", "cd /usr; exec sleep 0.3", "cd /usr; set -e; false", "cd /usr; exec false"} {
		b.sh("cd " + quoted(b.dir))
		r := b.sh(command)
		assert.True(t, r.StateLost, command)
		if command != "cd /usr; exec false" { // nobody saw it there
			assert.Equal(t, "/usr", r.Cwd, command)
			assert.Equal(t, "/usr\n", b.sh("pwd").Output, command)
		}
	}
	r := b.sh("mkdir -p d/x; cd d/x; exit")
	assert.Equal(t, filepath.Join(b.dir, "d/x"), r.Cwd)
	require.NoError(t, os.RemoveAll(filepath.Join(b.dir, "d")))
	r = b.sh("pwd")
	assert.Equal(t, b.dir+"\n", r.Output)
	assert.Contains(t, r.text, "d/x was removed or replaced; the command ran in "+b.dir)
}

// Whatever is wrong with a command's text, the shell keeps what it knows.
func TestSyntaxErrorsKeepTheState(t *testing.T) {
	b := newBench(t, Options{})
	b.sh("v=kept")
	for _, command := range []string{"((", "$((", "echo $((", "echo ${", "echo `", "[[", "[[ a", "case x in", "f() {", "(", "{", "if", "for", "while", "select x",
		"echo 'a", "echo \"a", "cat <<X", "a=(", "<(", "&&", ";;", "|", "!", "coproc", "echo $((1+))", "echo ${x!}", "echo $'", ")", "}", "done", "function"} {
		r := b.sh(command)
		assert.Equal(t, "kept\n", b.sh("echo $v").Output, "%q said %q", command, r.text)
		assert.False(t, r.StateLost, command)
		b.sh("v=kept")
	}
	for _, commands := range [][]string{
		{"echo $(date", "echo $((1+"}, {`echo "$(date"`, "echo $(foo", "((i++"}, {"echo $(date", "(( i = 5"}, {"x=$(ls", "for ((i=0;i<3;i++; do"},
		{"x=$(ls", "if (( 1 > 0 ; then echo"}, {"cat <(ls"}, {"for x in $(ls"}, {"if [ $(ls"}, {"case $(x"}, {"echo {$("}, {"$("}, {"echo ${x", "(("},
	} {
		for _, command := range commands {
			assert.NotZero(t, b.sh(command).code(), command)
		}
		assert.Equal(t, "kept\n", b.sh("echo $v").Output, commands)
		assert.False(t, b.sh("true").StateLost, commands)
	}
}
