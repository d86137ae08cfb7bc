//go:build unix

package spawn

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunOwn(t *testing.T) {
	t.Setenv("OWN_SECRET", "of the executor")
	open := NewKeeper(Options{})
	require.NoError(t, open.Configure(Launch{Hook: func(*Launching) error { panic("not for these") }}))
	open.Open("")
	defer open.Close()
	for name, k := range map[string]*Keeper{"nil": nil, "not open": NewKeeper(Options{}), "open": open} {
		sh := func(text string) Output {
			out, err := k.RunOwn(t.Context(), []string{"sh", "-c", text}, 1000)
			require.NoError(t, err, name)
			return out
		}
		out := sh(`echo $OWN_SECRET; echo bad >&2; exit 3`)
		assert.Equal(t, "of the executor\n", string(out.Stdout), name)
		assert.Equal(t, "bad\n", string(out.Stderr), name)
		assert.Equal(t, 3, out.Exit.Code, name)
		assert.False(t, out.More)
		started := time.Now()
		out = sh(`trap '' PIPE TERM; yes`)
		assert.True(t, out.More, name)
		assert.Len(t, out.Stdout, 1000)
		assert.Less(t, time.Since(started), 20*time.Second)
		assert.Len(t, sh(`head -c 1000 /dev/zero`).Stdout, 1000)
		assert.False(t, sh(`head -c 1000 /dev/zero; head -c 100000 /dev/zero >&2`).More, "only the result counts")

		number := unique()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := k.RunOwn(ctx, []string{"sh", "-c", strings.ReplaceAll(`setsid sleep 7001 & sleep 7001`, "7001", number)}, 1000)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = k.RunOwn(ctx, []string{"sh"}, 1000)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		assert.False(t, alive("sleep "+number), name)
		_, err = k.RunOwn(t.Context(), []string{"no-such-program"}, 1000)
		assert.ErrorContains(t, err, "start no-such-program: command not found")
	}
	number := unique()
	_, err := open.RunOwn(t.Context(), []string{"sh", "-c", `sleep ` + number + ` &`}, 1000)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return alive("sleep " + number) }, 10*time.Second, 5*time.Millisecond, "an agent goes on")
	assert.Empty(t, open.Close())
	assert.False(t, alive("sleep "+number), "as long as the executor")
}
