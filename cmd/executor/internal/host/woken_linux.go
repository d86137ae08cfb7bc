package host

import (
	"cmp"
	"errors"
	"math"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// WatchWoken makes n channels and tells each of the moments at which this process was away:
// the machine has woken from a suspend, or somebody let a stopped process go on. stop ends it.
// On a system that cannot say there are none.
func WatchWoken(n int) (woken []<-chan struct{}, stop func()) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, func() {}
	}
	clock := os.NewFile(uintptr(fd), "clock")
	if err := awaitJump(clock); err != nil {
		_ = clock.Close()
		return nil, func() {}
	}
	var told []chan struct{}
	for range n {
		c := make(chan struct{}, 1)
		told, woken = append(told, c), append(woken, c)
	}
	tell := func() {
		for _, c := range told {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	ended := make(chan struct{})
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	var all sync.WaitGroup
	all.Go(func() {
		before := suspended()
		for b := make([]byte, 8); ; {
			if _, err := clock.Read(b); !errors.Is(err, unix.ECANCELED) || awaitJump(clock) != nil {
				return // closed
			}
			if now := suspended(); now-before > time.Second { // else the clock was set
				before = now
				tell()
			}
		}
	})
	all.Go(func() {
		for {
			select {
			case <-continued:
				tell()
			case <-ended:
				return
			}
		}
	})
	return woken, func() {
		signal.Stop(continued)
		close(ended)
		_ = clock.Close()
		all.Wait()
	}
}

// awaitJump makes the next read wait for a moment that will not come. The system ends that
// wait when the clock jumps, which it does with every suspend.
func awaitJump(clock *os.File) error {
	c, err := clock.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		never := unix.ItimerSpec{Value: unix.Timespec{Sec: math.MaxInt32}}
		failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
	})
	return cmp.Or(err, failed)
}

// suspended is for how long the machine has been suspended since it booted.
func suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
