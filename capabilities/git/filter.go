package git

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

const (
	// maxNames is bytes of paths in one command line.
	maxNames = 64 << 10
	// maxChanged is bytes of paths that are looked at before something is written.
	maxChanged = 32 << 20
)

// refuseFiltered refuses to take files into the repository that a filter would have changed: without it they
// would be stored as they are, large or in clear text. others: files that it does not know yet are taken, too.
func (r *repository) refuseFiltered(ctx context.Context, others bool, args []string) error {
	if len(r.config.filters) == 0 || r.top == "" {
		return nil
	}
	argv := []string{"ls-files", "-z", "--modified"}
	if others {
		argv = append(argv, "--others", "--exclude-standard")
	}
	text, err := r.ask(ctx, maxChanged, append(append(argv, "--"), args...)...)
	if err != nil {
		return err
	}
	names := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	for len(names) > 0 && names[0] != "" {
		size, n := 0, 0
		for n < len(names) && (n == 0 || size+len(names[n]) < maxNames) {
			size += len(names[n]) + 1
			n++
		}
		text, err := r.ask(ctx, maxChanged, append([]string{"check-attr", "-z", "filter", "--"}, names[:n]...)...)
		if err != nil {
			return err
		}
		fields := strings.Split(string(text), "\x00")
		for i := 0; i+2 < len(fields); i += 3 {
			if slices.Contains(r.config.filters, fields[i+2]) {
				return protocol.Errorf(protocol.CodeConflict, "%s would go through the filter %s, a program of the configuration, which is not run here, and without it the file would be stored as it is. "+
					"Add it with git in a command, or allow filters in the executor's configuration", capabilities.QuoteName(filepath.ToSlash(fields[i])), capabilities.QuoteName(fields[i+2]))
			}
		}
		names = names[n:]
	}
	return nil
}
