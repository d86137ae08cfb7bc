package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/protocol"
)

// pinned is a program whose file has to have a certain hash. A nil one is any program.
type pinned struct {
	want string
	path string
	info os.FileInfo
}

// pin looks whether the program of a command is the one that is wanted, and fixes its path in the command. It
// is the file that is named, also when that is a script or a wrapper of another program. After the start,
// again looks whether it still is.
func pin(ctx context.Context, want string, c *spawn.Command) (*pinned, error) {
	if want == "" {
		return nil, nil
	}
	path, err := spawn.LookPath(c.Argv[0], c.Dir, c.Env)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeMCPUnavailable, "start %s: %v", c.Argv[0], err)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	p := &pinned{want: strings.ToLower(want), path: path}
	if p.info, err = p.look(ctx); err != nil {
		return nil, err
	}
	c.Argv[0] = path
	return p, nil
}

// again is to be called when the program was started: the file may have been exchanged while it was looked at.
func (p *pinned) again(ctx context.Context) error {
	if p == nil {
		return nil
	}
	info, err := p.look(ctx)
	if err != nil {
		return err
	}
	if !os.SameFile(info, p.info) || !info.ModTime().Equal(p.info.ModTime()) || info.Size() != p.info.Size() || changed(info) != changed(p.info) {
		return p.differs("it was exchanged in the moment of the start")
	}
	return nil
}

// look is what the file is, if it is the one that is wanted.
func (p *pinned) look(ctx context.Context) (os.FileInfo, error) {
	f, err := openProgram(p.path)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeMCPUnavailable, "start %s: %v", capabilities.QuoteName(p.path), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, protocol.Errorf(protocol.CodeMCPUnavailable, "start %s: it is not a file", capabilities.QuoteName(p.path))
	}
	hash := sha256.New()
	if err == nil {
		_, err = io.Copy(hash, readerOf(ctx, f))
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeMCPUnavailable, "read %s: %v", capabilities.QuoteName(p.path), err)
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != p.want {
		return nil, p.differs("it has " + sum)
	}
	return info, nil
}

func (p *pinned) differs(how string) error {
	return protocol.Errorf(protocol.CodeMCPUnavailable, "transport.command_sha256: %s is not the program that is wanted: %s", capabilities.QuoteName(p.path), how)
}

// readerOf ends with ctx.
func readerOf(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context // for the time of one read of a whole file
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
