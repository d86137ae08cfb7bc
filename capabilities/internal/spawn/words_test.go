package spawn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Every system says what it has and what is missing.
func TestWords(t *testing.T) {
	all := Means{ParentDeath: true, Labels: true, Adoption: true, Cgroup: "/sys/fs/cgroup/x", Launch: []string{"commands run as bob"}}
	for _, c := range []struct {
		means    Means
		system   string
		says     []string
		saysNone []string
	}{
		{all, "linux", []string{"ends in the moment the executor does", "an inherited label", "becomes a child of the executor", "in a control group, /sys/fs/cgroup/x", "run as bob"}, []string{"not found", "goes on"}},
		{Means{NoCgroup: "read-only file system"}, "linux", []string{"until the next start", "there are no labels here", "is not found when that was cleared", "no control group for commands: read-only file system"}, nil},
		{Means{NoCgroup: "this system has no control groups"}, "darwin", []string{"until the next start", "left its group is known by an environment variable", "no control group"}, []string{"a descendant whose parent has ended becomes"}},
		{Means{}, "freebsd", []string{"is not found on this system afterwards", "not found again"}, nil},
		{Means{Launch: []string{"commands are started through /box"}}, "windows", []string{"only a command itself is ended", "go on when the executor is killed", "through /box"}, []string{"label", "control group"}},
	} {
		words := c.means.wordsOn(c.system)
		text := strings.Join(words, "\n")
		for _, s := range c.says {
			assert.Contains(t, text, s, c.system)
		}
		for _, s := range c.saysNone {
			assert.NotContains(t, text, s, c.system)
		}
		for _, w := range words {
			assert.NotContains(t, w, "\n", "one line each")
		}
	}
	k := NewKeeper(Options{})
	k.Open("")
	defer k.Close()
	assert.GreaterOrEqual(t, len(k.Means().Words()), 2)
}
