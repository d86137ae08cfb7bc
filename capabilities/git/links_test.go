//go:build unix

package git

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Links that stay inside hide nothing that is behind them.
func TestLinksBehindLinks(t *testing.T) {
	template := newPlace(t)
	template.init()
	template.commit("a.txt", "a\n")
	template.put(".git/rebase-merge/head-name", "refs/heads/main\n")
	outside := filepath.Join(template.base, "outside")
	require.NoError(t, os.CopyFS(outside, os.DirFS(template.top)))
	template.put(filepath.Join(outside, "list"), "the secret\n")
	for name, o := range map[string]struct{ make, reason string }{
		"objects":                         {make: `mv .git/objects o; ln -s ../o .git/objects; rm -rf o/??; for d in $OUT/.git/objects/??; do ln -s $d o/; done`},
		"one of the objects' directories": {make: `d=$(cd .git/objects && echo ??); d=${d%% *}; rm -r .git/objects/$d; ln -s $OUT/.git/objects/$d .git/objects/$d`},
		"branches":                        {make: `mv .git/refs r; ln -s ../r .git/refs; rm -r r/heads; ln -s $OUT/.git/refs/heads r/heads`},
		"a branch deep down":              {make: `mkdir -p x/y; ln -s ../../../x/y .git/refs/heads/b; ln -s ../../z x/y/c; ln -s $OUT/.git/refs/heads z`},
		"logs":                            {make: `mv .git/logs l; ln -s ../l .git/logs; rm -rf l/refs; ln -s $OUT l/refs`},
		"attributes":                      {make: `mv .git/info i; ln -s ../i .git/info; ln -s $OUT/list i/attributes`},
		"alternates":                      {make: `rm -r .git/objects/info; mkdir ii; ln -s ../../ii .git/objects/info; ln -s $OUT/list ii/alternates`},
		"relative alternates":             {make: `mkdir x; mv .git/objects x/o; ln -s ../x/o .git/objects; mkdir -p x/o/info; echo ../../../outside/.git/objects >x/o/info/alternates`},
		"alternates behind a link":        {make: `ln -s ../.. .git/objects/up; echo up/../outside/.git/objects >.git/objects/info/alternates`},
		"alternates as text":              {make: `mkdir -p d/d d/outside/.git/objects; ln -s $PWD/d/d l; echo $PWD/l/../../outside/.git/objects >.git/objects/info/alternates`},
		"alternates of alternates":        {make: `mkdir -p a/info; echo $PWD/a >.git/objects/info/alternates; echo ../../outside/.git/objects >a/info/alternates`},
		"a pack":                          {make: `ln -s $OUT/list .git/objects/pack/x.pack`},
		"a pack of an index":              {make: `printf 'MIDX\1\1\1\0\0\0\0\2PNAM\0\0\0\0\0\0\0\044\0\0\0\0\0\0\0\0\0\0\0\046a\0../../../../outside/p.idx\0' >.git/objects/pack/multi-pack-index`},
		"a table of branches":             {make: `mkdir -p .git/reftable; echo ../../../outside/x.ref >.git/reftable/tables.list`},
		"a graph":                         {make: `mkdir -p .git/objects/info/commit-graphs; ln -s $OUT/list .git/objects/info/commit-graphs/commit-graph-chain`},
		"a rebase":                        {make: `ln -s $OUT/list .git/rebase-merge/done`},
		"an am":                           {make: `mkdir .git/rebase-apply; ln -s $OUT/list .git/rebase-apply/head-name`},
		"a sequence":                      {make: `mkdir .git/sequencer; ln -s $OUT/list .git/sequencer/todo`},
		"resolutions":                     {make: `mkdir .git/rr-cache; ln -s $OUT .git/rr-cache/0123456789012345678901234567890123456789`},
		"a work tree's HEAD":              {make: `mkdir -p .git/worktrees/wt; ln -s $OUT/.git/HEAD .git/worktrees/wt/HEAD`},
		"a work tree's repository":        {make: `mkdir -p .git/worktrees/wt; echo $OUT/.git >.git/worktrees/wt/commondir; cp .git/HEAD .git/worktrees/wt/`},
		"the branches of a work tree":     {make: `mkdir -p .git/worktrees/wt other/refs other/objects; echo ../../../other >.git/worktrees/wt/commondir; echo 'ref: refs/heads/main' >.git/worktrees/wt/HEAD; ln -s $OUT/list other/packed-refs`},
		"the objects of a work tree":      {make: `mkdir -p .git/worktrees/wt other/refs other/objects/info; echo ../../../other >.git/worktrees/wt/commondir; echo $OUT/.git/objects >other/objects/info/alternates`},
		"a submodule's branches":          {make: `mkdir -p .git/modules/a/b/refs; cp .git/HEAD .git/modules/a/b/; ln -s $OUT/.git/refs/heads .git/modules/a/b/refs/heads`},
		"a submodule's repository":        {make: `mkdir -p .git/modules/a/b; cp .git/HEAD .git/modules/a/b/; echo ../../../../../outside/.git >.git/modules/a/b/commondir`},
		"whose it is":                     {make: `ln -s $OUT/list .git/commondir`},
		"where it is":                     {make: `mv .git x; ln -s $OUT/list .git`},
		"HEAD outside":                    {make: `rm .git/HEAD; ln -s $OUT/list .git/HEAD`},
		"configuration":                   {make: `rm .git/config; ln -s $OUT/list .git/config`},
		"sparse":                          {make: `ln -s $OUT/list .git/info/sparse-checkout`},
		"the packed branches":             {make: `ln -s $OUT/list .git/packed-refs`},
		"what was fetched":                {make: `ln -s $OUT/list .git/FETCH_HEAD`},
		"a bisection":                     {make: `ln -s $OUT/list .git/BISECT_LOG`},
		"what is shallow":                 {make: `ln -s $OUT/list .git/shallow`},
		"what git does not know":          {make: `mkdir -p .git/x/y; ln -s $OUT/list .git/x/y/z`},
		"submodules":                      {make: `ln -s $OUT/list .gitmodules`},
		"includes":                        {make: `ln -s .. .git/up; printf '[include]\n\tpath = up/../outside/list\n' >>.git/config`},
		"includes of includes":            {make: `ln -s .. .git/up; printf '[include]\n\tpath = ../more\n' >>.git/config; printf '[include]\n\tpath = .git/up/../outside/list\n' >more`},
		"includes beside a link":          {make: `mkdir -p d/d; cp /dev/null d/d/more; ln -s ../d/d .git/l; printf '[include]\n\tpath = l/more\n' >>.git/config; printf '[include]\n\tpath = ../../../outside/list\n' >d/d/more`},
		"where branches are":              {make: `printf '[extensions]\n\trefStorage = files://../../outside/.git/refs\n' >>.git/config`},
		"a pipe":                          {`mkfifo .git/shallow`, "conflict"},
		"a pipe deep down":                {`mkfifo .git/refs/heads/x`, "conflict"},
		"HEAD":                            {`rm .git/HEAD; mkfifo .git/HEAD`, "conflict"},
		"a pipe that is included":         {`mkfifo p; ln -s p q; printf '[include]\n\tpath = ../q\n' >>.git/config`, "conflict"},
		"a pipe behind a link":            {`mkfifo p; rm -f .git/info/exclude; ln -s ../../p .git/info/exclude`, "conflict"},
		"what is ignored":                 {`mkfifo .gitignore`, "conflict"},
		"attributes as a pipe":            {`mkfifo p; ln -s p .gitattributes`, "conflict"},
		"other names":                     {`mkfifo .mailmap`, "conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newPlace(t)
			outside := filepath.Join(b.base, "outside")
			require.NoError(t, os.CopyFS(b.top, os.DirFS(template.top)))
			require.NoError(t, os.CopyFS(outside, os.DirFS(filepath.Join(template.base, "outside"))))
			b.sh(outside, o.make)
			before := tree(t, outside)
			b.start(Options{Timeout: 5 * time.Second})
			if o.reason == "" {
				o.reason = "workspace_boundary"
			}
			assert.NotContains(t, b.refused(o.reason, "commit", "--allow-empty", "-m", "x"), "the secret")
			assert.Equal(t, before, tree(t, outside), "nothing outside is written")
		})
	}
}

// tree is what there is below a directory, and since when.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all = append(all, fmt.Sprint(path, info.Size(), info.Mode(), info.ModTime()))
		}
		return err
	}))
	return all
}

// Links that stay inside are no fault.
func TestLinksThatStay(t *testing.T) {
	b := newPlace(t)
	b.init()
	b.commit("a.txt", "a\n")
	b.sh("", `for d in objects refs logs info hooks; do [ ! -e .git/$d ] || { mv .git/$d x$d; ln -s ../x$d .git/$d; }; done
		mkdir -p other; mv xobjects/?? other/; ln -s . xrefs/again; echo ../other >xobjects/info/alternates; mkdir -p .git/modules/a/objects/ab .git/lfs/objects
		git repack -qd; echo z >z; git add z; git commit -qm z; git repack -qd; git multi-pack-index write; git reset -q --hard HEAD~1
		git worktree add -q wt; cp -r .git/worktrees/wt .git/worktrees/old; ln -s . lnk; git config core.excludesFile lnk/../ws/lnk/mine; echo '*.log' >mine; touch x.log
		printf '[include]\n\tpath = ../lnk/../ws/more\n' >>.git/config; printf '[core]\n\tabbrev = 12\n' >more`)
	b.start(Options{})
	assert.Contains(t, b.works("log", "--all", "--format=%h %s"), b.sh("", "git rev-parse HEAD")[:12]+" change a.txt")
	assert.NotContains(t, b.works("status", "-s"), "x.log")
	b.put("a.txt", "b\n")
	b.works("commit", "-am", "x")
	assert.Contains(t, b.works("log", "--format=%s", "-g"), "x\n")
}

// What cannot be looked at is not used: a name in such a directory can be opened all the same.
func TestDirectoriesThatCannotBeRead(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can read every directory")
	}
	b := newBench(t, Options{})
	b.commit("a.txt", "a\n")
	dir := filepath.Join(b.top, ".git/rebase-merge")
	require.NoError(t, os.Mkdir(dir, 0o300))
	assert.Contains(t, b.refused("forbidden", "status"), ".git/rebase-merge cannot be read")
	require.NoError(t, os.Chmod(dir, 0o700))
	b.works("status")
}

// A link into a root that is read-only is not written through.
func TestLinksThatAreWritten(t *testing.T) {
	b := newPlace(t)
	b.init()
	b.commit("a.txt", "a\n")
	fixed := filepath.Join(b.base, "fixed")
	b.sh("", `mkdir ../fixed ../fixed/hooks; rm -rf .git/hooks; ln -s ../../fixed/hooks .git/hooks; mv .git/logs ../fixed/; ln -s ../../fixed/logs .git/logs`)
	b.start(Options{}, capabilities.Root{Path: b.top}, capabilities.Root{Path: fixed, ReadOnly: true})
	b.works("log", "-g")
	b.refused("workspace_read_only", "commit", "--allow-empty", "-m", "x")
	b.sh("", `rm .git/logs`)
	b.works("commit", "--allow-empty", "-m", "x")
}

// A pipe that is not found before is named by the time limit.
func TestPipeFurtherDown(t *testing.T) {
	b := newPlace(t)
	b.init()
	b.commit("a.txt", "a\n")
	b.sh("", "mkdir sub; mkfifo sub/.gitignore sub/x; touch sub/f")
	b.start(Options{Timeout: time.Second, Grace: 100 * time.Millisecond})
	assert.Contains(t, b.refused("timeout", "status"), "It may have waited for "+filepath.Join(b.top, "sub/.gitignore")+", which is a named pipe")
}
