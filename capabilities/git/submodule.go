package git

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/protocol"
)

// maxSubmodules is how many submodules with work trees are looked at.
const maxSubmodules = 200

// coverSubmodules makes git keep from running what the submodules say. Subcommands that write start a git in
// each submodule that has a work tree, to see whether it changed, with the environment of the first one: so
// what has to be said otherwise for any of them is said for all.
func (r *repository) coverSubmodules(ctx context.Context) error {
	left := maxSubmodules
	return r.cover(ctx, r, &left)
}

func (r *repository) cover(ctx context.Context, parent *repository, left *int) error {
	if parent.top == "" {
		return nil
	}
	var paths []string
	err := parent.each(ctx, func(item string) {
		if mode, rest, ok := strings.Cut(item, " "); ok && mode == "160000" {
			if _, path, ok := strings.Cut(rest, "\t"); ok && len(paths) <= maxSubmodules {
				paths = append(paths, path)
			}
		}
	}, "ls-files", "--stage", "-z", "--full-name", "--", ":/")
	if err != nil {
		return err
	}
	for _, path := range paths {
		dir := filepath.Join(parent.top, filepath.FromSlash(path))
		if !exists(filepath.Join(dir, ".git")) {
			continue
		}
		if *left--; *left < 0 {
			return protocol.Errorf(protocol.CodeForbidden, "there are more than %d submodules with work trees; git is not run in so many", maxSubmodules)
		}
		sub := *r
		sub.config, sub.included, sub.top, sub.ceiling = nil, nil, "", parent.top
		if sub.dir, err = r.real("a submodule", dir); err != nil {
			return err
		}
		if err := sub.inspect(ctx); err != nil {
			return err
		}
		r.config.join(sub.config)
		if err := r.cover(ctx, &sub, left); err != nil {
			return err
		}
	}
	if len(r.config.settings) > maxSettings {
		return protocol.Errorf(protocol.CodeForbidden, "the configurations of the submodules name too many programs and files that git is not to use")
	}
	return nil
}

// join adds what is to be said for another repository.
func (c *config) join(other *config) {
	known := map[string]bool{}
	for _, s := range c.settings {
		known[s.key] = true
	}
	for _, s := range other.settings {
		if !known[s.key] {
			c.settings = append(c.settings, s)
		}
	}
	c.secrets = append(c.secrets, other.secrets...)
}
