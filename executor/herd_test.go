package executor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
	"github.com/agent-executor/executor/protocol/rpc"
)

// spread is the number of dials in each 100 ms since a moment.
type spread struct {
	mu   sync.Mutex
	from time.Time
	bins []int
}

func (s *spread) dial() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from.IsZero() {
		return
	}
	n := int(time.Since(s.from) / (100 * time.Millisecond))
	for len(s.bins) <= n {
		s.bins = append(s.bins, 0)
	}
	s.bins[n]++
}

// peak is that of a tenth of a second and its ratio to the mean, over the time in which
// there were dials.
func (s *spread) peak() (peak int, ratio float64, all int) {
	for _, n := range s.bins {
		all += n
		peak = max(peak, n)
	}
	return peak, float64(peak) * float64(len(s.bins)) / float64(all), all
}

// The executors of a brain that restarts do not come back in the same moment:
// from when it is there again, the busiest tenth of a second has less than three times
// the dials of the mean one (case 92). EXECUTOR_HERD=1 makes it a thousand of them.
func TestNoHerd(t *testing.T) {
	const away = 5 * time.Second
	many, below := 150, 6.0 // so few that chance alone makes peaks
	if os.Getenv("EXECUTOR_HERD") != "" {
		many, below = 1000, 3.0
	}
	in(t, func(t *testing.T, w *world) {
		old := w.brain(brain.Options{HeartbeatInterval: time.Hour, LeaseTTL: 3 * time.Hour})
		var down atomic.Bool
		var back spread
		var dials atomic.Int64
		ctx, leave := context.WithCancel(w.ctx)
		var all sync.WaitGroup
		for range many {
			o := w.options(func(o *Options) {
				o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
					dials.Add(1)
					back.dial()
					if down.Load() {
						return nil, &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
					}
					d := w.net.DialOptions()
					d.PingInterval = time.Hour
					d.DeadAfter = 24 * time.Hour
					return rpc.Dial(ctx, "ws://brain/", d)
				}
			})
			e, err := New(o)
			require.NoError(t, err)
			all.Go(func() { require.NoError(t, e.Run(ctx)) })
		}
		sleep(31 * time.Second)
		require.Len(t, old.Executors(), many)

		down.Store(true)
		next := w.brain(brain.Options{HeartbeatInterval: time.Hour, LeaseTTL: 3 * time.Hour})
		require.NoError(t, old.Close("restart")) // 1001 to all
		time.Sleep(away)
		before := dials.Load()
		back.mu.Lock()
		back.from = time.Now()
		back.mu.Unlock()
		down.Store(false)
		sleep(time.Minute)
		peak, ratio, n := back.peak()
		t.Logf("%d dials while it was away, then %d in %.1f s: peak %d in 100 ms, %.2f of the mean", before-int64(many), n, float64(len(back.bins))/10, peak, ratio)
		require.Len(t, next.Executors(), many)
		require.Less(t, len(back.bins), 150) // all within 15 s
		require.Less(t, ratio, below)
		leave()
		all.Wait()
	})
}

// The same with clocks alone, for outages of all lengths, many times.
func TestDelaysSpread(t *testing.T) {
	refused := &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
	for _, down := range []float64{2, 5, 10, 30, 90} {
		const rounds, many = 5, 1000
		var sum, last float64
		for range rounds {
			var bins [600]int
			end := 0
			for range many {
				d := newDelays(500*time.Millisecond, 30*time.Second)
				at := d.after(attempt{err: &rpc.CloseError{Code: 1001}, ready: time.Hour}).Seconds()
				for at < down {
					at += d.after(attempt{err: refused}).Seconds()
				}
				n := int((at - down) * 10)
				bins[n]++
				end = max(end, n)
			}
			peak := 0
			for _, n := range bins {
				peak = max(peak, n)
			}
			sum += float64(peak) / (float64(many) / float64(end+1))
			last = max(last, float64(end)/10)
		}
		t.Logf("away for %v s: peak/mean %.2f, the last after %.1f s", down, sum/rounds, last)
		require.Less(t, sum/rounds, 3.5)
		if down >= 5 {
			require.Less(t, sum/rounds, 3.0)
		}
		require.LessOrEqual(t, last, 15.0)
	}
}

// A brain that is away for 90 s and comes back is registered with within 15 s, whatever
// the network says meanwhile, and the session goes on (case 95).
func TestAwayFor90Seconds(t *testing.T) {
	for name, fails := range map[string]error{"refused": syscall.ECONNREFUSED, "no socket": syscall.ENOENT,
		"a proxy that answers": &rpc.DialError{Status: 502}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				var away atomic.Bool
				h := hold()
				s := w.session(brain.Options{}, func(o *Options) {
					dial := o.Dial
					o.Dial = func(ctx context.Context, token string) (rpc.Frames, error) {
						if away.Load() {
							return nil, fmt.Errorf("dial: %w", fails)
						}
						return dial(ctx, token)
					}
				}, h)
				sleep(time.Minute)
				away.Store(true)
				w.net.Cut()
				sleep(90 * time.Second)
				require.NotEqual(t, StateReady, w.Status().State)
				away.Store(false)
				sleep(15 * time.Second)
				require.Equal(t, StateReady, w.Status().State)
				close(h.release)
				_, err := s.Call(w.ctx, "hold", nil)
				require.NoError(t, err)
			})
		})
	}
}

// A brain that still holds the last connection of an executor that crashed answers
// conflict for a while: asked again until it lets go, not in a hot loop (case 132).
func TestConflictForAWhile(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		began := time.Now()
		s := w.script(func(s *script) {
			s.register = func(int, protocol.RegisterParams, *protocol.RegisterResult) error {
				if time.Since(began) < 30*time.Second {
					return protocol.Errorf(protocol.CodeConflict, "already active")
				}
				return nil
			}
		})
		w.run(nil)
		sleep(61 * time.Second)
		require.Equal(t, StateReady, w.Status().State)
		require.Less(t, len(s.so().dials), 20)
		require.Greater(t, len(s.so().dials), 3)
	})
}
