package spawn

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Keeper is what all children of one executor have in common: by it they end with the executor, however
// that ends, and what is left of them is found at the next start.
//
//	keeper := spawn.NewKeeper(spawn.Options{})
//	report := keeper.Open(stateDir) // ends what an earlier executor left behind
//	defer keeper.Close()
//	group := keeper.NewGroup()
//
// One serves all brains of a process. Its methods may be called concurrently; whoever opened it ends it
// with Close, after the groups. A nil Keeper, and one that was not opened, gives groups like the
// function NewGroup.
type Keeper struct {
	options Options

	mu        sync.Mutex
	opened    bool
	forker    *forker
	ownForker *forker // for the commands of the executor itself; nil when it is the same
	labels    *labels
	id        string // the common part of all markers; empty for none
	cgroup    *cgroup
	means     Means
	restore   func()            // gives up the orphans
	since     uint64            // when it was opened, in the table's unit
	own       *Group            // of the commands of the executor itself; nil before the first
	login     map[string]string // of the children's user
	loginOnce sync.Once
	launch    *launch // how all children are started; set before the first is
}

// strayGrace is for what is left at the end of the executor.
const strayGrace = time.Second

// Means says by what children are kept hold of. What is missing does not exist on this system, or is not
// permitted; descendants are then found by what is left.
type Means struct {
	// ParentDeath: the system ends a child at the moment the executor ends, also by kill -9. Its
	// own descendants are ended at the next start.
	ParentDeath bool
	// Labels: descendants are known by a number that is inherited and cannot be lost by accident.
	Labels bool
	// Adoption: descendants whose parents have ended become children of the executor.
	Adoption bool
	// Cgroup is the directory of the control group the children are in; empty when there is none, and
	// then NoCgroup says why.
	Cgroup   string
	NoCgroup string
	// Launch says in words what Configure has set.
	Launch []string
}

// Report says what an earlier executor on the same state directory left running.
type Report struct {
	Ended     []Member   // what was ended
	Survivors []Survivor // what could not be ended
	// LeftAlone carry the marker in their environment, but nothing proves that they descend from a
	// child of ours: environments are also copied. Parents of this process are among them too.
	LeftAlone []Member
	// Problem is why the instance could not be read or noted, so that what runs now may not be found
	// after a kill; nil when it could.
	Problem error
	// Sandbox is why no sandbox could be opened although one is configured: nothing is started then.
	Sandbox error
}

// Options configures a keeper. Zero fields are the defaults: all that the system has to offer.
type Options struct {
	NoCgroup bool          // makes no control group
	Grace    time.Duration // between SIGTERM and SIGKILL for what was left; 1 s
}

// NewKeeper makes a keeper. It does nothing before Open.
func NewKeeper(o Options) *Keeper {
	if o.Grace <= 0 {
		o.Grace = time.Second
	}
	return &Keeper{options: o}
}

// Open takes hold of the children of this process, and ends those that an earlier one on the same state
// directory has left. The caller holds the directory for this process alone and has started no child
// yet. Orphans come to this process from then on, and ReapOrphans is to wait for them.
// An empty dir is fine, and nothing is found then. It does not fail: it makes do with what the
// system offers. A second call does nothing.
func (k *Keeper) Open(dir string) Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opened {
		return Report{}
	}
	k.opened = true
	var report Report
	i, fresh := newInstance(), true
	if dir != "" {
		i, fresh, report.Problem = readInstance(dir)
	}
	k.id, k.labels = i.id, newLabels(i.number())
	k.means.Labels = labelsWork()
	if !fresh {
		report = sweep(i, k.labels, k.means.Labels, k.options.Grace)
	}
	was := i.cgroup
	parent, err := ownCgroup()
	if i.cgroup = ""; err == nil && !k.options.NoCgroup {
		i.cgroup = filepath.Join(parent, cgroupName(i))
	}
	if dir != "" && report.Problem == nil && (fresh || i.cgroup != was) {
		report.Problem = i.write(dir) // before it is made: it is found after a kill at any moment
	}
	k.openCgroup(parent, i, err)
	k.since = now()
	k.restore, k.means.Adoption = adopt()
	if k.means.ParentDeath = diesWithParent; diesWithParent {
		k.forker, _ = startForker(nil)
	}
	if k.launch.confined() {
		report.Sandbox = k.openSandbox(i.id[:16])
	}
	return report
}

// openCgroup makes the control group, if that can be; err is why it cannot.
func (k *Keeper) openCgroup(parent string, i instance, err error) {
	if k.options.NoCgroup {
		k.means.NoCgroup = "not wanted"
		return
	}
	var c *cgroup
	if err == nil {
		c, err = newCgroup(parent, cgroupName(i))
	}
	if err == nil {
		if err = tryCgroup(c); err != nil {
			c.remove()
		}
	}
	if err != nil {
		k.means.NoCgroup = err.Error()
		return
	}
	k.cgroup, k.means.Cgroup = c, c.path
}

// cgroupName is what the control group of an instance is called, wherever it is.
func cgroupName(i instance) string { return "executor-" + i.id[:16] }

// old is the control group of the last life; nil when there is none. What is noted is not trusted.
func (i instance) old() *cgroup {
	if filepath.Base(i.cgroup) != cgroupName(i) {
		return nil
	}
	if _, err := os.Stat(i.cgroup); err != nil {
		return nil
	}
	c, err := newCgroup(filepath.Split(strings.TrimSuffix(i.cgroup, "/")))
	if err != nil {
		return nil
	}
	return c
}

// Means says what is in force. All is missing before Open.
func (k *Keeper) Means() Means {
	if k == nil {
		return Means{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	means := k.means
	means.Launch = k.launch.words()
	return means
}

// NewGroup makes an empty group of children that this keeper keeps.
func (k *Keeper) NewGroup() *Group {
	if k == nil {
		return NewGroup()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.newGroup()
}

// newGroup is NewGroup with the lock held.
func (k *Keeper) newGroup() *Group {
	g := NewGroup()
	g.launch = k.launch  // opened or not
	if k.labels == nil { // not opened, or closed
		return g
	}
	g.keeper, g.labels = k, k.labels
	g.thread = k.forker
	g.id = k.id + "-" + g.id
	return g
}

// Close ends what is left of the children of all groups, which are closed before, and gives up what Open
// took. Orphans that have come to this process since Open, in sessions of their own, are taken for what is
// left; a program that has such descendants by other ways does without Close. It returns what could not be ended. A second call does nothing.
func (k *Keeper) Close() []Survivor {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.labels == nil {
		return nil
	}
	var survivors []Survivor
	if k.own != nil {
		survivors = k.own.Close(strayGrace)
	}
	survivors = append(survivors, endStrays(k)...)
	k.labels = nil
	for _, f := range []*forker{k.forker, k.ownForker} {
		if f != nil {
			f.stop()
		}
	}
	if k.launch.confined() {
		_ = k.launch.box.Close()
	}
	k.cgroup.remove()
	k.restore()
	k.means = Means{}
	return survivors
}
