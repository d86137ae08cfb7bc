package git

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxPointer is bytes of a file that names a repository.
	maxPointer = 8 << 10
	// maxIncludes is how many files a configuration may include.
	maxIncludes = 100
)

// checkFirst looks at what git reads before it can be asked where the repository is: with whatever is asked, it
// reads the configuration, and the files that are included. Where the repository is, is looked for as git does
// it. What that says is not relied on; what git answers is checked again.
func (r *repository) checkFirst(ctx context.Context) error {
	gitDir, err := r.findGitDir()
	if err != nil || gitDir == "" {
		return err
	}
	if !inside(r.workspace, gitDir) {
		return r.outside("its directory", gitDir)
	}
	for _, name := range []string{"HEAD", "config", "config.worktree", "commondir"} {
		part := beside(gitDir, name)
		info, err := os.Stat(part)
		switch {
		case err != nil:
		case !inside(r.workspace, part):
			return r.outside("what a link in it leads to", part)
		case waits(info.Mode()):
			return r.blocks(part)
		}
	}
	common := gitDir
	if text, err := readSmall(beside(gitDir, "commondir"), maxPointer); err == nil {
		common = beside(gitDir, strings.TrimRight(text, "\r\n"))
	}
	if !inside(r.workspace, common) {
		return r.outside("the repository that this work tree belongs to", common)
	}
	for _, file := range []string{beside(common, "config"), beside(gitDir, "config.worktree")} {
		if err := r.checkIncludes(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// findGitDir is where the directory of the repository seems to be; "" is nowhere.
func (r *repository) findGitDir() (string, error) {
	for dir := r.dir; dir != r.ceiling && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ".git")
		info, err := os.Stat(path)
		switch {
		case err != nil && exists(filepath.Join(dir, "HEAD")) && exists(filepath.Join(dir, "objects")) && exists(filepath.Join(dir, "refs")):
			return dir, nil
		case err != nil:
			continue
		case !inside(r.workspace, path):
			return "", r.outside("its directory", path)
		case waits(info.Mode()):
			return "", r.blocks(path)
		case info.IsDir():
			return path, nil
		}
		text, err := readSmall(path, maxPointer)
		if to, ok := strings.CutPrefix(text, "gitdir: "); err == nil && ok {
			return beside(dir, strings.TrimRight(to, "\r\n")), nil
		}
		return "", nil // git will say what is wrong with it
	}
	return "", nil
}

// checkIncludes refuses a configuration that includes a file outside, in itself or in a file that it includes.
// None of them is read before it is known to be inside.
func (r *repository) checkIncludes(ctx context.Context, file string) error {
	if !mentions(file, "include") {
		return nil
	}
	p, err := r.workspace.Resolve(capabilities.QuoteName(file))
	if err != nil {
		return r.outside("a file of its configuration", file)
	}
	// From where a file is included says what its relative paths mean.
	key := p.Abs + "\x00" + directoryOf(file)
	if dir, err := filepath.EvalSymlinks(directoryOf(file)); err == nil {
		key = p.Abs + "\x00" + dir
	}
	if r.included[key] {
		return nil
	}
	if r.included == nil {
		r.included = map[string]bool{}
	}
	if r.included[key] = true; len(r.included) > maxIncludes {
		return protocol.Errorf(protocol.CodeForbidden, "the repository is not used: its configuration includes more than %d files", maxIncludes)
	}
	text, err := r.ask(ctx, maxConfig, "config", "--file", file, "--no-includes", "--list", "-z")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(text), "\x00") {
		e, _ := parseEntry(line)
		included, err := r.checkInclude(e, directoryOf(file))
		if err != nil {
			return err
		}
		if included != "" {
			if err := r.checkIncludes(ctx, included); err != nil {
				return err
			}
		}
	}
	return nil
}
