package approval

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func desk(t *testing.T, o Options) *Desk {
	t.Helper()
	d, err := New(o)
	require.NoError(t, err)
	return d
}

func ask(t *testing.T, d *Desk, q Question) *Ticket {
	t.Helper()
	k, _, err := d.Ask(q)
	require.NoError(t, err)
	return k
}

func TestOneAnswer(t *testing.T) {
	d := desk(t, Options{})
	var told []Answer
	k := ask(t, d, Question{Tool: "bash", What: "ls", Subject: "x", Decided: func(a Answer) { told = append(told, a) }})
	items, changed := d.Watch()
	require.Len(t, items, 1)
	require.Equal(t, k.ID(), items[0].ID)
	require.ErrorIs(t, d.Decide("zzz", Answer{}), ErrUnknown)
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { errs[i] = d.Decide(k.ID(), Answer{Allow: true, By: "me"}) })
	}
	group.Wait()
	n := 0
	for _, err := range errs {
		if err == nil {
			n++
		} else {
			require.ErrorIs(t, err, ErrUnknown)
		}
	}
	require.Equal(t, 1, n, "it is decided once")
	<-changed
	a, err := k.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, Answer{Allow: true, Scope: Once, By: "me"}, a)
	require.Equal(t, []Answer{a}, told)
	require.Empty(t, d.Remembered("", "x"))
	k.Withdraw()
	a, _ = k.Wait(context.Background())
	require.True(t, a.Allow, "it stays as it was decided")
}

func TestEndsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t, Options{})
		life, end := context.WithCancel(context.Background())
		expires := ask(t, d, Question{Life: life})
		a, err := expires.Wait(context.Background())
		require.NoError(t, err)
		require.True(t, a.Expired)

		gone := ask(t, d, Question{Life: life})
		kept := ask(t, d, Question{Life: life, Again: "k"})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = gone.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = kept.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		items := d.Pending()
		require.Len(t, items, 1, "who asks again finds it")
		again, fresh, err := d.Ask(Question{Life: life, Again: "k"})
		require.NoError(t, err)
		require.False(t, fresh)
		require.Same(t, kept, again)
		end()
		synctest.Wait()
		require.Empty(t, d.Pending())
		a, _ = kept.Wait(context.Background())
		require.True(t, a.Withdrawn)
		_, _, err = d.Ask(Question{Life: life})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestBound(t *testing.T) {
	d := desk(t, Options{MaxWaiting: 2})
	first := ask(t, d, Question{Again: "a"})
	ask(t, d, Question{})
	_, _, err := d.Ask(Question{})
	require.ErrorIs(t, err, ErrBusy)
	require.Same(t, first, ask(t, d, Question{Again: "a"}), "what waits already is no more")
	first.Withdraw()
	ask(t, d, Question{})
}

func TestAllowedAlways(t *testing.T) {
	file := filepath.Join(t.TempDir(), "approvals.json")
	d := desk(t, Options{File: file})
	k := ask(t, d, Question{Tool: "bash", What: "make", Dir: "/w", Subject: "s1"})
	require.NoError(t, d.Decide(k.ID(), Answer{Allow: true, Scope: Always}))
	once := ask(t, d, Question{Tool: "bash"})
	require.ErrorContains(t, d.Decide(once.ID(), Answer{Allow: true, Scope: Session}), "once only")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	d = desk(t, Options{File: file})
	require.Equal(t, Always, d.Remembered("any", "s1"))
	require.Empty(t, d.Remembered("any", "s2"))
	require.Empty(t, d.Remembered("any", ""))
	rules := d.Rules()
	require.Len(t, rules, 1)
	require.Equal(t, "make", rules[0].What)
	require.ErrorIs(t, d.Forget("zzz"), ErrUnknown)
	require.NoError(t, d.Forget(rules[0].ID))
	require.Empty(t, desk(t, Options{File: file}).Rules())
}

// A file that cannot be read allows nothing, and is set aside; one that cannot be written decides nothing.
func TestDamagedFile(t *testing.T) {
	for _, text := range []string{"", "{", `{"allowed":[{"id":"x"}]}`, "null garbage", `{"allowed":[{"subject":"s1"}]}`} {
		file := filepath.Join(t.TempDir(), "approvals.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		d := desk(t, Options{File: file})
		assert.Empty(t, d.Rules(), text)
		_, err := os.Stat(file + ".damaged")
		assert.NoError(t, err, text)
	}
	d := desk(t, Options{File: filepath.Join(t.TempDir(), "not", "there")})
	k := ask(t, d, Question{Subject: "s"})
	require.Error(t, d.Decide(k.ID(), Answer{Allow: true, Scope: Always}))
	require.Len(t, d.Pending(), 1)
	require.NoError(t, d.Decide(k.ID(), Answer{}))
}
