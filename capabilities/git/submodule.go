package git

import (
	"bytes"
	"context"
	"os"
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
	dirs, err := parent.submodules(ctx)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if *left--; *left < 0 {
			return errManySubmodules
		}
		sub, err := r.submodule(parent, dir)
		if err != nil {
			return err
		}
		if err := sub.inspect(ctx); err != nil {
			return err
		}
		r.config.join(sub.config)
		if err := r.cover(ctx, sub, left); err != nil {
			return err
		}
	}
	if len(r.config.settings) > maxSettings {
		return protocol.Errorf(protocol.CodeForbidden, "the configurations of the submodules name too many programs and files that git is not to use")
	}
	return nil
}

var errManySubmodules = protocol.Errorf(protocol.CodeForbidden, "there are more than %d submodules with work trees; git is not run in so many", maxSubmodules)

// submodules are the directories of those that have a work tree.
func (r *repository) submodules(ctx context.Context) (dirs []string, err error) {
	err = r.each(ctx, func(item string) {
		if mode, rest, ok := strings.Cut(item, " "); ok && mode == "160000" {
			_, path, _ := strings.Cut(rest, "\t")
			dir := filepath.Join(r.top, filepath.FromSlash(path))
			if len(dirs) <= maxSubmodules && exists(filepath.Join(dir, ".git")) {
				dirs = append(dirs, dir)
			}
		}
	}, "ls-files", "--stage", "-z", "--full-name", "--", ":/")
	return dirs, err
}

// submodule is the repository in dir, of which nothing is known yet.
func (r *repository) submodule(parent *repository, dir string) (*repository, error) {
	sub := *r
	sub.config, sub.included, sub.top, sub.ceiling = nil, nil, "", parent.top
	var err error
	sub.dir, err = r.real("a submodule", dir)
	return &sub, err
}

// checkSubmodules looks at the submodules for what leads out: git reads in each which commit it is at, also
// when nothing is written and no git is started in it.
func (r *repository) checkSubmodules(ctx context.Context) error {
	if r.top == "" || !r.mayHaveSubmodules() {
		return nil
	}
	dirs, err := r.submodules(ctx)
	if err != nil {
		return err
	}
	return r.checkUnopened(ctx, dirs)
}

// checkNested does so for repositories that are no submodules yet: add makes them such.
func (r *repository) checkNested(ctx context.Context, paths []string) error {
	if r.top == "" {
		return nil
	}
	var dirs []string
	err := r.each(ctx, func(item string) {
		if dir := filepath.Join(r.top, filepath.FromSlash(item)); strings.HasSuffix(item, "/") && exists(filepath.Join(dir, ".git")) {
			dirs = append(dirs, dir)
		}
	}, append([]string{"ls-files", "--others", "--exclude-standard", "-z", "--full-name", "--"}, paths...)...)
	if err != nil {
		return err
	}
	return r.checkUnopened(ctx, dirs)
}

// checkUnopened looks at repositories in which no git is started.
func (r *repository) checkUnopened(ctx context.Context, dirs []string) error {
	if len(dirs) > maxSubmodules {
		return errManySubmodules
	}
	for _, dir := range dirs {
		sub, err := r.submodule(r, dir)
		if err != nil {
			return err
		}
		if err := sub.checkFirst(ctx); err != nil {
			return err
		}
		gitDir, err := sub.findGitDir()
		if err != nil {
			return err
		}
		if gitDir == "" {
			continue // no repository, for git neither
		}
		if sub.gitDir, err = r.real("the directory of a submodule", gitDir); err != nil {
			return err
		}
		sub.common = sub.gitDir // another one is found on the way
		if err := sub.checkParts(ctx); err != nil {
			return err
		}
	}
	return nil
}

// gitlink is how the index writes what kind of entry a submodule is.
var gitlink = []byte{0, 0, 0xe0, 0}

// mayHaveSubmodules looks into the index without git, which would have to be started for it. It is wrong
// on the safe side.
func (r *repository) mayHaveSubmodules() bool {
	entries, err := entriesOf(r.gitDir)
	for _, e := range entries {
		if e.Name() != "index" && !strings.HasPrefix(e.Name(), "sharedindex.") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.gitDir, e.Name()))
		if err != nil || bytes.Contains(text, gitlink) {
			return true
		}
	}
	return err != nil
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
