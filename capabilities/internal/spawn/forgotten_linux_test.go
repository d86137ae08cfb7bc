package spawn

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kept are the ways in which a group is kept hold of.
var kept = map[string]func(t *testing.T) *Keeper{
	"no keeper": func(t *testing.T) *Keeper { return nil },
	"keeper":    func(t *testing.T) *Keeper { k, _ := newKeeper(t, "", Options{NoCgroup: true}); return k },
	"cgroup":    func(t *testing.T) *Keeper { k, _ := newKeeper(t, "", Options{}); return k },
}

// What a command left that has been forgotten ends with the group, also when a later one is remembered:
// it was started before the later one, and is nowhere but in the group.
func TestCloseEndsWhatForgottenCommandsLeft(t *testing.T) {
	for name, keeper := range kept {
		t.Run(name, func(t *testing.T) {
			k := keeper(t)
			for range stress(3, 8) {
				g := k.NewGroup()
				number := unique()
				a := script(t, g, strings.ReplaceAll(`(setsid nohup sleep 7001 >/dev/null 2>&1 &); echo ok`, "7001", number))
				a.Wait()
				<-a.Ended()
				require.True(t, eventually(func() bool { return !a.tree.lingers() }), "it has left the process group")
				time.Sleep(15 * time.Millisecond) // the next one has another start time
				script(t, g, `sleep `+unique()+` >/dev/null 2>&1 & echo`).Wait()
				require.NotContains(t, g.Processes(), a.Process, "nothing of it is left in its process group")
				assert.Empty(t, g.Close(300*time.Millisecond))
				require.False(t, alive("sleep "+number))
			}
		})
	}
}

// Where there is no label any more, what was seen while its command was remembered is ended all the same.
func TestCloseEndsWhatWasSeen(t *testing.T) {
	k, _ := newKeeper(t, "", Options{NoCgroup: true})
	g := k.NewGroup()
	number := unique()
	a := begin(t, g, strings.ReplaceAll(`(ulimit -S -x unlimited; exec env -i setsid sleep 7001 >/dev/null 2>&1) & echo ready; sleep 0.5`, "7001", number))
	require.True(t, eventually(func() bool { return alive("sleep " + number) }))
	require.NotEmpty(t, a.Background())
	a.Wait()
	<-a.Ended()
	require.True(t, eventually(func() bool { return len(g.Processes()) == 0 }))
	assert.Empty(t, g.Close(300*time.Millisecond))
	assert.False(t, alive("sleep "+number))
}

// What was seen does not pile up in a group that lives long.
func TestSeenIsForgottenAfterItsEnd(t *testing.T) {
	g := NewGroup()
	defer g.Close(0)
	for range 4 {
		a := begin(t, g, `setsid sleep 0.5 >/dev/null 2>&1 & echo ready; sleep 0.2`)
		require.NotEmpty(t, a.Background())
		a.Wait()
		<-a.Ended()
		g.mu.Lock()
		g.leftMost = 0
		g.mu.Unlock()
		require.True(t, eventually(func() bool { return len(a.Background()) == 0 }))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	assert.LessOrEqual(t, len(g.left), 2, "those of the last one at most")
}
