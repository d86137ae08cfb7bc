package files

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
)

// locks keeps the writers of one file apart, whatever session they belong to.
// Files are told apart by their directory and name in it: the inode of a file changes
// with every atomic write. A file with several names has a second lock, by inode,
// taken after all those by name.
// The zero value is ready.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	taken chan struct{} // holds one value while somebody has the lock
	users int           // those who have it or wait for it
}

// acquire waits for the lock of key or for the context. The release is called
// once.
func (l *locks) acquire(ctx context.Context, key string) (release func(), err error) {
	l.mu.Lock()
	k := l.held[key]
	if k == nil {
		if l.held == nil {
			l.held = map[string]*lock{}
		}
		k = &lock{taken: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case k.taken <- struct{}{}:
		return func() { <-k.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// acquireAll takes several locks in one order for everybody, so that no two wait
// for each other.
func (l *locks) acquireAll(ctx context.Context, keys ...string) (release func(), err error) {
	slices.Sort(keys)
	var held []func()
	release = func() {
		for _, r := range slices.Backward(held) {
			r()
		}
	}
	for _, key := range slices.Compact(keys) {
		one, err := l.acquire(ctx, key)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, one)
	}
	return release, nil
}

// fileKey is the lock of the name in dir, which is p: the directory by identity,
// whatever way led to it, and the name without case, since on some disks names that
// differ in case only are one, and on the others waiting for each other does no harm.
func fileKey(dir *os.Root, name string, p capabilities.Path) string {
	if info, err := dir.Stat("."); err == nil {
		if id := identity(info); id != "" {
			return "in " + id + " " + strings.ToLower(name)
		}
	}
	return "path " + strings.ToLower(p.Abs)
}
