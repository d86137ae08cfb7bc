package capabilities

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/agent-executor/executor/protocol"
)

// The executor's own corner of a workspace. Its .gitignore keeps it out of the
// user's commits.
const (
	privateDir = ".executor"
	spillDir   = "spill"
)

type spillFile struct {
	file    *os.File
	display string
}

// openSpill makes the spill file of a call. It goes through os.Root, so that no
// link in the workspace leads out of it, and refuses a link in place of its own
// directories, so that none leads elsewhere in the workspace either.
func openSpill(w *Workspace, callID string) (*spillFile, error) {
	if w == nil {
		return nil, protocol.Errorf(protocol.CodeResourceUnavailable, "no workspace to spill into").
			WithReason(protocol.ReasonWorkspaceUnavailable).WithRetryable(false)
	}
	here, err := w.ResolveWrite(".")
	if err != nil {
		return nil, err
	}
	top, err := here.OpenDir()
	if err != nil {
		return nil, err
	}
	defer top.Close()
	private, err := ownDir(top, privateDir)
	if err != nil {
		return nil, err
	}
	defer private.Close()
	if err := ignoreAll(private); err != nil {
		return nil, err
	}
	dir, err := ownDir(private, spillDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()

	// Sessions may share a workspace and call ids are unique only within a session.
	name := spillName(callID)
	f, err := create(dir, name+".txt")
	for i := 0; i < 10 && errors.Is(err, fs.ErrExist); i++ {
		f, err = create(dir, name+"-"+randomHex()+".txt")
	}
	if err != nil {
		return nil, FileError(err, path.Join(privateDir, spillDir, name+".txt"))
	}
	return &spillFile{file: f, display: path.Join(privateDir, spillDir, filepath.Base(f.Name()))}, nil
}

// ownDir opens a directory that only the executor's user may enter and makes it
// when it is not there.
func ownDir(parent *os.Root, name string) (*os.Root, error) {
	if err := parent.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, FileError(err, name)
	}
	info, err := parent.Lstat(name)
	if err != nil {
		return nil, FileError(err, name)
	}
	if !info.IsDir() {
		return nil, protocol.Errorf(protocol.CodeForbidden, "%s in the workspace is not a directory", name).
			WithReason(protocol.ReasonWorkspaceBoundary)
	}
	dir, err := openStep(parent, name) // sees when the two are not the same any more
	if err != nil {
		return nil, FileError(err, name)
	}
	return dir, nil
}

func ignoreAll(dir *os.Root) error {
	f, err := create(dir, ".gitignore")
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString("*\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return FileError(err, privateDir+"/.gitignore")
	}
	return nil
}

func create(dir *os.Root, name string) (*os.File, error) {
	return dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

var plainName = shortName{"", regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)}

// spillName makes a file name of a call id, which is any string. A plain one
// stays readable, anything else becomes a hash; IsLocal refuses the device names
// of Windows.
func spillName(callID string) string {
	if plainName.MatchString(callID) && filepath.IsLocal(callID) {
		return callID
	}
	sum := sha256.Sum256([]byte(callID))
	return hex.EncodeToString(sum[:16])
}

func randomHex() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// removeSpills removes what the session's calls have spilled: nobody can read it any
// more. A file that somebody has put in such a place stays.
func (s *Session) removeSpills() {
	s.mu.Lock()
	names := s.spills
	s.spills = nil
	s.mu.Unlock()
	if len(names) == 0 {
		return
	}
	here, err := s.Workspace().ResolveWrite(path.Join(privateDir, spillDir))
	if err != nil {
		return // the workspace is gone, and they with it
	}
	dir, err := here.OpenDir()
	if err != nil {
		return
	}
	defer dir.Close()
	for _, name := range names {
		_ = dir.Remove(name)
	}
}
