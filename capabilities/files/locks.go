package files

import (
	"context"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
)

// locks keeps the writers of one file apart, whatever session they belong to.
// Files are told apart by name: the inode changes with every atomic write. A file
// with several names has a second lock, by inode, taken after the one by name.
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

// pathKey takes names that differ in case only for one: on some disks they are,
// and on the others waiting for each other does no harm.
func pathKey(p capabilities.Path) string { return "path " + strings.ToLower(p.Abs) }
