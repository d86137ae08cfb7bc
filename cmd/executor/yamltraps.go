package main

import (
	"fmt"
	"slices"
	"strings"

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

// refuseLeadingZero: 010 is ten to some and eight to others.
func refuseLeadingZero(text string) error {
	digits := strings.TrimLeft(text, "+-")
	if len(digits) > 1 && digits[0] == '0' {
		return fmt.Errorf("%q: a number that begins with 0 is not read the same by everybody; want it without", text)
	}
	return nil
}

// cleanPaths makes of a path in a flag, a variable or the file what is meant by it: ~/
// is the home, and what is relative is so to base, or to the current directory when that
// is empty. A shell would make something of the rest; here it would be a strange name.
func cleanPaths(list []string, base string, join func(base, path string) string) error {
	for i, text := range list {
		switch first, _, _ := strings.Cut(text, "/"); {
		case first == "~", strings.HasPrefix(text, "~/"), slices.Contains([]string{"~:ro", "~:rw"}, text):
			list[i] = expandHome(text)
			if list[i] == text {
				return fmt.Errorf("%q: there is no home directory, HOME is not set; write the whole path", text)
			}
		case strings.HasPrefix(text, "~"):
			return fmt.Errorf("%q: only ~/ is read, as your own home directory; write the whole path, or ./%s for a file of that name", text, text)
		case strings.HasPrefix(text, "$"):
			return fmt.Errorf("%q: variables are not read in paths; write the whole path, or one that begins with ~/", text)
		}
		if base != "" {
			list[i] = join(base, list[i])
		}
	}
	return nil
}
