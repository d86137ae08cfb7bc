package gateway

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
)

// kind is one of the lists of what a server has.
type kind int

const (
	toolList kind = iota
	promptList
	resourceList
	kinds
)

const (
	// refreshPause is between two looks at one list, however often the server says that
	// it has changed.
	refreshPause = 250 * time.Millisecond
	// maxOffers is how much of one list is taken: a server that always has another page
	// comes to an end.
	maxOffers = 5000
)

// offers is what one run of a server has, as it changes.
type offers struct {
	p *passage

	mu     sync.Mutex
	server *mcp.ClientSession // nil before the first look
	busy   [kinds]bool        // it is being looked at, or was just now
	again  [kinds]bool        // it has changed since
}

// newOffers is busy with all until looked.
func newOffers(p *passage) *offers {
	return &offers{p: p, busy: [kinds]bool{true, true, true}}
}

// changed is told that a list is not what it was. It does not wait.
func (o *offers) changed(k kind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy[k] {
		o.again[k] = true
		return
	}
	o.busy[k] = o.p.h.c.goes(func() { o.refresh(k) })
}

// looked says that the first look is over.
func (o *offers) looked(server *mcp.ClientSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.server = server
	for k := range kinds {
		if o.busy[k] = o.again[k]; o.busy[k] {
			o.again[k] = false
			o.busy[k] = o.p.h.c.goes(func() { o.refresh(k) })
		}
	}
}

// refresh looks at a list until it is as it was at the last look.
func (o *offers) refresh(k kind) {
	c := o.p.h.c
	for {
		limit, cancel := context.WithTimeout(c.ctx, serverLimit)
		err := o.look(limit, o.server, k)
		cancel()
		if err != nil && c.ctx.Err() == nil {
			c.g.log.Warn("server of an executor does not say what it has", zap.String("server", o.p.key), zap.Error(err))
		}
		pause := time.NewTimer(refreshPause)
		select {
		case <-pause.C:
		case <-c.ctx.Done():
			pause.Stop()
			return
		}
		o.mu.Lock()
		if !o.again[k] {
			o.busy[k] = false
			o.mu.Unlock()
			return
		}
		o.again[k] = false
		o.mu.Unlock()
	}
}

// look asks for one list, and shows the client what is in it.
func (o *offers) look(ctx context.Context, server *mcp.ClientSession, k kind) error {
	caps, p := server.InitializeResult().Capabilities, o.p
	switch {
	case k == toolList && caps.Tools != nil:
		tools, err := all(server.Tools(ctx, nil))
		if err != nil {
			return fmt.Errorf("list its tools: %w", err)
		}
		p.show(server, func() { p.tools = unchanged(p.tools, tools, func(t *mcp.Tool) string { return t.Name }) })
	case k == promptList && caps.Prompts != nil:
		prompts, err := all(server.Prompts(ctx, nil))
		if err != nil {
			return fmt.Errorf("list its prompts: %w", err)
		}
		p.show(server, func() { p.prompts = unchanged(p.prompts, prompts, func(q *mcp.Prompt) string { return q.Name }) })
	case k == resourceList && caps.Resources != nil:
		resources, err := all(server.Resources(ctx, nil))
		if err != nil {
			return fmt.Errorf("list its resources: %w", err)
		}
		p.show(server, func() { p.resources = unchanged(p.resources, resources, func(r *mcp.Resource) string { return r.URI }) })
	}
	return nil
}

// show changes what clients see of the server while it is the one that runs.
func (p *passage) show(server *mcp.ClientSession, change func()) {
	p.mu.Lock()
	if p.server != server {
		p.mu.Unlock()
		return
	}
	change()
	p.mu.Unlock()
	p.h.c.apply(p.h.c.g.table())
}

// all is a list of at most maxOffers.
func all[T any](list iter.Seq2[*T, error]) (out []*T, err error) {
	for one, err := range list {
		switch {
		case err != nil:
			return nil, err
		case len(out) == maxOffers:
			return out, nil
		case one != nil:
			out = append(out, one)
		}
	}
	return out, nil
}

// unchanged is now with the pointers of before for what is as it was: clients are not told
// of those.
func unchanged[T any](before, now []*T, name func(*T) string) []*T {
	old := map[string]*T{}
	for _, one := range before {
		old[name(one)] = one
	}
	for i, one := range now {
		if same := old[name(one)]; same != nil && reflect.DeepEqual(same, one) {
			now[i] = same
		}
	}
	return now
}
