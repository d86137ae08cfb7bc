package gateway

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
	"github.com/agent-executor/executor/protocol/brain"
)

// table is what the executors can do at one moment. It is not changed once made.
type table struct {
	members []member
	tools   map[string]*tool   // by the name clients see
	plain   map[string][]*tool // by the name on the executor
	changed <-chan struct{}    // closed when it has to be made anew
	until   time.Time          // and when, because of an executor that is away; zero: not
}

// member is an executor in a table.
type member struct {
	x      *brain.Executor
	prefix string // of its tools; "" when it is the only one
	files  bool   // its files can be read
	roots  []string
}

// table returns what there is now.
func (g *Gateway) table() *table {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.last; t != nil && (t.until.IsZero() || time.Now().Before(t.until)) {
		select {
		case <-t.changed:
		default:
			return t
		}
	}
	g.last = g.look(g.last)
	return g.last
}

// look makes a table. A tool that is as it was before is the same pointer.
func (g *Gateway) look(before *table) *table {
	t := &table{tools: map[string]*tool{}, plain: map[string][]*tool{}, changed: g.b.Changed()}
	now := time.Now()
	var here []*brain.Executor
	for _, x := range g.b.Executors() {
		if g.opts.Executor != "" && g.opts.Executor != x.ID() && g.opts.Executor != x.Info().Name {
			continue
		}
		if !x.Connected() {
			end := x.LastSeen().Add(g.opts.Grace)
			if !now.Before(end) {
				continue
			}
			if t.until.IsZero() || end.Before(t.until) {
				t.until = end
			}
		}
		here = append(here, x)
	}
	var names, ids []string
	for _, x := range here {
		names = append(names, safeName(cmp.Or(x.Info().Name, x.ID()), maxNameBytes/2))
		ids = append(ids, x.ID())
	}
	prefixes := unique(names, ids)
	for i, x := range here {
		m := member{x: x, prefix: prefixes[i]}
		if len(here) == 1 {
			m.prefix = ""
		}
		g.addTools(t, &m, before)
		t.members = append(t.members, m)
	}
	return t
}

func (g *Gateway) addTools(t *table, m *member, before *table) {
	caps := m.x.Capabilities()
	infos, err := caps.Tools()
	if err != nil {
		g.log.Warn("tools of an executor cannot be read", zap.String("executor", m.x.ID()), zap.Error(err))
		return
	}
	// Sorted, so that names that are alike always come out the same.
	slices.SortStableFunc(infos, func(a, b protocol.ToolInfo) int { return cmp.Compare(a.Name, b.Name) })
	var names, keys []string
	for _, info := range infos {
		names = append(names, safeName(info.Name, maxNameBytes))
		keys = append(keys, info.Name)
	}
	names = unique(names, keys)
	for i, info := range infos {
		name := names[i]
		if m.prefix != "" {
			name = joined(m.prefix, name)
		}
		one, err := describe(m.x, info, name, m.prefix)
		if err == nil && t.tools[name] != nil {
			err = errTwice
		}
		if err != nil {
			g.log.Warn("tool of an executor is left out", zap.String("executor", m.x.ID()), zap.String("tool", info.Name), zap.Error(err))
			continue
		}
		one.plain = names[i]
		if before != nil {
			if old := before.tools[name]; old != nil && old.x == one.x && old.name == one.name && bytes.Equal(old.raw, one.raw) {
				one = old
			}
		}
		t.tools[name] = one
		t.plain[one.plain] = append(t.plain[one.plain], one)
	}
	var files protocol.FilesDetails
	if ok, err := caps.Get(protocol.CapabilityFiles, &files); ok && err == nil && files.Enabled {
		m.roots = files.ReadRoots
		m.files = slices.ContainsFunc(infos, func(i protocol.ToolInfo) bool { return i.Name == readTool })
	}
}
