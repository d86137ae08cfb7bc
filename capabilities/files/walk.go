package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/search"
	"github.com/agent-executor/executor/protocol"
)

// privateDirs are not entered by a walk that was not asked for them: the insides of
// git and of the executor are no files of the user's.
var privateDirs = [...]string{".git", ".executor"}

// walker goes through a tree level by level, each directory's names in order, so that
// what a limit leaves is the top of it. Links are not followed, other file systems not
// entered. Only the first most entries that fit are kept, however many there are.
type walker struct {
	ctx       context.Context
	start     capabilities.Path
	recursive bool
	fits      search.Pattern
	most      int

	device  uint64 // of the start
	found   []walked
	total   int      // that fit, found or not
	unread  []string // directories that could not be read, and why
	private []string // directories that were not entered
}

// walked is one entry: a name in a directory.
type walked struct {
	rel  string // below the start, with slashes
	info fs.FileInfo
	link string // where a link leads
}

func (k *walker) run() error {
	top, err := k.start.OpenDir()
	if err != nil {
		if info, other := k.start.Root.Lstat(k.start.Rel); other == nil && info.Mode()&(fs.ModeDir|fs.ModeSymlink) == 0 {
			return protocol.Errorf(protocol.CodeInvalidParams, "%s is not a directory but a %s: read shows a file, stat describes it", k.start.Display, kindOf(info.Mode()))
		}
		return err
	}
	defer top.Close()
	info, err := top.Stat(".")
	if err != nil {
		return fault(err, k.start)
	}
	k.device = device(info)
	var level []string
	if err := k.dir(top, "", &level); err != nil {
		return fault(err, k.start)
	}
	for len(level) > 0 && k.recursive {
		var next []string
		for _, rel := range level {
			if err := k.ctx.Err(); err != nil {
				return err
			}
			if err := k.below(rel, &next); err != nil {
				return err
			}
		}
		level = next
	}
	return nil
}

// below reads the directory rel. What cannot be read is said, not fatal.
func (k *walker) below(rel string, next *[]string) error {
	p := k.start
	p.Rel = filepath.Join(p.Rel, filepath.FromSlash(rel))
	p.Display = capabilities.QuoteName(rel)
	dir, err := p.OpenDir()
	if err == nil {
		err = k.sameSystem(dir)
		if err == nil {
			err = k.dir(dir, rel, next)
		}
		dir.Close()
	}
	if k.ctx.Err() != nil {
		return k.ctx.Err()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, protocol.ErrNotFound) { // not just gone meanwhile
		k.unread = append(k.unread, fault(err, p).Error())
	}
	return nil
}

func (k *walker) sameSystem(dir *os.Root) error {
	here, err := dir.Stat(".")
	if err == nil && device(here) != k.device {
		err = errMountPoint
	}
	return err
}

// dir lists one directory. Its names are read in portions; of those beyond the limit
// only the number is kept.
func (k *walker) dir(dir *os.Root, rel string, next *[]string) error {
	names := smallest{most: k.most - len(k.found)}
	subdirs := []string{}
	err := entries(k.ctx, dir, func(e fs.DirEntry) error {
		at := path.Join(rel, e.Name())
		if k.fits.Match(at, e.IsDir()) {
			k.total++
			names.add(e.Name())
		}
		if e.IsDir() && k.recursive {
			if isPrivate(e.Name()) {
				k.private = append(k.private, at)
			} else {
				subdirs = append(subdirs, at)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names.sorted() {
		info, err := dir.Lstat(name)
		if err != nil {
			k.total-- // gone meanwhile
			continue
		}
		one := walked{rel: path.Join(rel, name), info: info}
		if info.Mode()&fs.ModeSymlink != 0 {
			one.link, _ = dir.Readlink(name)
		}
		k.found = append(k.found, one)
	}
	slices.Sort(subdirs)
	*next = append(*next, subdirs...)
	return nil
}

// isPrivate takes other spellings for the same name: on some disks they are.
func isPrivate(name string) bool {
	return slices.ContainsFunc(privateDirs[:], func(private string) bool { return strings.EqualFold(name, private) })
}
