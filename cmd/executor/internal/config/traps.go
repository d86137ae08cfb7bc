package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// refuseTraps is what YAML can say and a configuration should not: what means something
// else than it seems to, or more than stands there. The error is of the node that is
// returned with it. Dates below n become the texts that they are.
func refuseTraps(n *yaml.Node) (*yaml.Node, error) {
	switch {
	case n.Kind == yaml.AliasNode:
		return n, fmt.Errorf("*%s: references are not read; write out what is meant", n.Value)
	case n.Anchor != "":
		return n, fmt.Errorf("&%s: anchors are not read; leave it out", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		return n, fmt.Errorf("%s: types of YAML are not read; leave it out", n.Tag)
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!timestamp" {
		n.Tag = "!!str"
	}
	seen := map[string]int{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Tag == "!!merge" {
				return c, fmt.Errorf("<<: other mappings are not merged in; write out what is meant")
			}
			if line := seen[c.Value]; line > 0 && c.Kind == yaml.ScalarNode {
				return c, fmt.Errorf("key %q is in line %d already; leave one out", c.Value, line)
			}
			seen[c.Value] = c.Line
		}
		if where, err := refuseTraps(c); err != nil {
			return where, err
		}
	}
	return nil, nil
}
