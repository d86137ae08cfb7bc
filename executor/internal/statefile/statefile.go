// Package statefile keeps what an executor must know after its own restart, besides
// the journal of calls: who it is, its sessions, the fencing tokens of those that
// have ended, and the ends that the brain has not acknowledged. The smallest use:
//
//	file, state, damage, err := statefile.Open(dir)
//	err = file.Write(state)  // recorded when it returns
//	err = file.Mirror()      // and safe against damage of one file
//
// There are two copies, written one after the other, each of them under a temporary
// name, made durable and renamed. So a crash leaves one that is whole, and so does a
// file that is cut, emptied or overwritten later: the newest valid copy wins.
//
// Its parts: this file reads and writes copies, format.go is what is in one, disk.go
// is how it gets to the disk.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agent-executor/executor/protocol"
)

// State is what is kept.
type State struct {
	ExecutorID   string                        `json:"executor_id,omitempty"`
	ConnectionID string                        `json:"connection_id,omitempty"` // of the last connection
	Sessions     []Session                     `json:"sessions,omitempty"`
	Fences       []Fence                       `json:"fences,omitempty"`  // of sessions that have ended, oldest first
	Ends         []protocol.SessionEndedParams `json:"ends,omitempty"`    // not acknowledged, oldest first
	Journal      string                        `json:"journal,omitempty"` // id of the journal that has its calls
}

// Session is one that has not ended.
type Session struct {
	Assign protocol.SessionAssignParams `json:"assign"`
	// Dir is where it works.
	Dir string `json:"dir,omitempty"`
	// Ready: the brain has acknowledged session.ready.
	Ready bool `json:"ready,omitempty"`
	// Ending: it is being ended, and must not come back. EndReason is what
	// session.ended will say; "" when it will not be said.
	Ending    bool   `json:"ending,omitempty"`
	EndReason string `json:"end_reason,omitempty"`
}

// Fence is the fencing token of a session that has ended.
type Fence struct {
	SessionID string `json:"session_id"`
	Token     int64  `json:"token"`
}

// The two copies. A damaged one is kept as NAME.damaged; while one is written there
// is a NAME.tmp.
const (
	firstCopy     = "state.json"
	secondCopy    = "state.copy.json"
	damagedSuffix = ".damaged"
	tempSuffix    = ".tmp"
)

// maxBytes is how large a copy may be. It is far above what the sessions of one
// machine need, and keeps a file that is something else from filling the memory.
const maxBytes = 256 << 20

// Damage is one copy that was not what had been written.
type Damage struct {
	File    string // its path
	Problem error
	Aside   string // where it is kept; "" when it could not be moved
}

// File is the state of one executor. It is used by one goroutine at a time and holds
// nothing open. That only one process uses the directory is up to the caller.
type File struct {
	dir        string
	generation uint64
	content    []byte // of the newest copy
}

// Open reads the state in dir, which must exist. What a crash has left is removed,
// damaged copies are set aside and reported, and a missing one is written again, as
// far as that is possible. Nothing there, or nothing that is whole, is an empty
// State. Something else than a file, under one of the names, is set aside as well. The
// error is one that only a human can mend: no permission, or a newer version's format;
// then nothing was changed.
func Open(dir string) (*File, State, []Damage, error) {
	f := &File{dir: dir}
	var state State
	var damage []Damage
	found := map[string]uint64{} // generations of the copies that are whole
	for _, name := range []string{firstCopy, secondCopy} {
		raw, err := f.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, fs.ErrPermission):
			return nil, State{}, nil, fmt.Errorf("state directory: %w", err)
		}
		var c copyOf
		if err == nil {
			c, err = decode(raw)
		}
		if errors.Is(err, ErrNewer) {
			return nil, State{}, nil, fmt.Errorf("state directory: %s: %w", f.path(name), err)
		}
		if err != nil {
			damage = append(damage, Damage{File: f.path(name), Problem: err})
		}
		if c.whole == nil {
			continue
		}
		if f.content == nil || c.generation > f.generation {
			f.generation, f.content, state = c.generation, c.whole, c.state
		}
		if err == nil {
			found[name] = c.generation
		}
	}
	for i := range damage {
		damage[i].Aside = setAside(damage[i].File)
	}
	for _, name := range []string{firstCopy, secondCopy} {
		_ = os.Remove(f.path(name) + tempSuffix)
		if g, ok := found[name]; f.content != nil && (!ok || g != f.generation) {
			_ = f.put(name) // the next Write tells of a disk that takes nothing
		}
	}
	return f, state, damage, nil
}

// Write records the state: it is on the disk when Write returns without an error.
// After an error the state before it is still there.
func (f *File) Write(s State) error {
	content, err := encode(f.generation+1, s)
	if err != nil {
		return err
	}
	if len(content) > maxBytes {
		return fmt.Errorf("the state of %d sessions takes %d MiB, which is more than %d MiB", len(s.Sessions), len(content)>>20, maxBytes>>20)
	}
	f.generation++ // also after an error: the disk may have it or not
	f.content = content
	return f.put(firstCopy)
}

// Mirror brings the second copy up to what Write wrote.
func (f *File) Mirror() error {
	if f.content == nil {
		return nil
	}
	return f.put(secondCopy)
}

func (f *File) path(name string) string { return filepath.Join(f.dir, name) }

func (f *File) put(name string) error {
	if err := replace(f.path(name), f.content); err != nil {
		return fmt.Errorf("write %s: %w", f.path(name), err)
	}
	return nil
}

var errNotRegular = errors.New("not a regular file")

func (f *File) read(name string) ([]byte, error) {
	path := f.path(name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a FIFO would hold us up for ever
		return nil, errNotRegular
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(raw) > maxBytes {
		err = fmt.Errorf("larger than %d MiB", maxBytes>>20)
	}
	return raw, err
}

// setAside keeps one damaged file of each name.
func setAside(path string) string {
	aside := path + damagedSuffix
	if os.Rename(path, aside) != nil {
		return ""
	}
	return aside
}
