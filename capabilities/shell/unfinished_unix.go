//go:build unix

package shell

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
)

// mayBeUnfinished says whether a command has something that, left open, puts a persistent shell into
// disorder: a bash that has read half of a substitution runs the next command, and dies of it.
func mayBeUnfinished(command string) bool {
	for _, opening := range []string{"$(", "<(", ">("} {
		if strings.Contains(command, opening) {
			return true
		}
	}
	return false
}

// unfinished asks another bash whether the command ends in the middle of something, and returns the words
// of that about it. Of any other fault, and of one that cannot be found out, the shell itself is to speak.
func (k *keeper) unfinished(ctx context.Context, group *spawn.Group, env []string, command string) (words string) {
	if k.pipes.open() != nil {
		return ""
	}
	file := filepath.Join(k.pipes.dir, "check")
	if os.WriteFile(file, []byte(command+"\n"), 0o600) != nil {
		return ""
	}
	defer os.Remove(file)
	var said bytes.Buffer
	p, err := group.Start(spawn.Command{
		Argv: []string{"bash", "--noprofile", "--norc", "-n", file},
		Env:  env,
		Stderr: func(p []byte) {
			if said.Len() < noteBytes {
				said.Write(p)
			}
		},
	})
	if err != nil {
		return ""
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		p.Kill()
	}
	if exit := p.Wait(); exit.Code == 0 || !strings.Contains(said.String(), "unexpected EOF while looking for matching") {
		return ""
	}
	return strings.ReplaceAll(said.String(), file+":", "bash:")
}
