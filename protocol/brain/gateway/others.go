package gateway

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
)

// applyOthers makes the prompts and resources of the client's server those of the MCP
// servers of the executors in the table. A resource has its shownURI; of two with the same
// one the first is there. c.applying is held.
func (c *client) applyOthers(t *table) {
	type offer struct {
		what any // a pointer: another one is another offer
		add  func()
	}
	prompts, resources := map[string]offer{}, map[string]offer{}
	for _, p := range c.passages(t) {
		p.mu.Lock()
		server := p.server
		var own []string
		for _, q := range p.prompts {
			own = append(own, q.Name)
		}
		names := p.names(p.prefix, own, func(name string) bool { return prompts[name].what != nil })
		for i, q := range p.prompts {
			name := names[i]
			if name == "" {
				continue
			}
			prompts[name] = offer{q, func() {
				shown := *q
				shown.Name = name
				c.server.AddPrompt(&shown, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
					return server.GetPrompt(ctx, &mcp.GetPromptParams{Name: q.Name, Arguments: req.Params.Arguments})
				})
			}}
		}
		for _, r := range p.resources {
			uri := shownURI(p.prefix, p.key, r.URI)
			if resources[uri].what != nil {
				continue
			}
			resources[uri] = offer{r, func() {
				shown := *r
				shown.URI = uri
				c.server.AddResource(&shown, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
					result, err := server.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI})
					if err != nil {
						return nil, err
					}
					for _, one := range result.Contents {
						if one != nil && one.URI != "" {
							one.URI = shownURI(p.prefix, p.key, one.URI)
						}
					}
					return result, nil
				})
			}}
		}
		p.mu.Unlock()
	}
	for _, kind := range []struct {
		want map[string]offer
		have map[string]any
		drop func(...string)
	}{{prompts, c.prompts, c.server.RemovePrompts}, {resources, c.resources, c.server.RemoveResources}} {
		for name := range kind.have {
			if kind.want[name].what == nil {
				delete(kind.have, name)
				kind.drop(name)
			}
		}
		for name, o := range kind.want {
			if kind.have[name] == o.what {
				continue
			}
			kind.have[name] = o.what
			if err := safely(o.add); err != nil {
				c.g.log.Warn("prompt or resource of a server is left out", zap.String("name", name), zap.Error(err))
			}
		}
	}
}

// safely is f's panic as an error: the library refuses so what comes from a server.
func safely(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	f()
	return nil
}
