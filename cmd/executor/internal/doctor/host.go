package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
)

// Program looks for the first of some programs and asks it for its version with args.
// missing is said where there is none.
func Program(names []string, args []string, missing Result) func(context.Context) Result {
	return func(ctx context.Context) Result {
		for _, name := range names {
			path, err := exec.LookPath(name)
			if err != nil {
				continue
			}
			version, err := firstLine(ctx, path, args...)
			if err != nil {
				return Result{Status: missing.Status, Text: fmt.Sprintf("%s is there and does not work: %v", path, err), Remedy: missing.Remedy}
			}
			return ok("%s, %s", path, version)
		}
		return missing
	}
}

// Missing is the result for Program where a program is not there.
func Missing(status Status, remedy, text string) Result {
	return Result{Status: status, Text: text, Remedy: remedy}
}

// firstLine runs a program and returns the first line that it prints.
func firstLine(ctx context.Context, argv0 string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, argv0, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, time.Second
	err := c.Run()
	line, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if err != nil {
		if ctx.Err() != nil {
			return "", errors.New("it gives no answer")
		}
		said, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("%w %s", err, said[:min(len(said), 200)])
	}
	return line, nil
}

// Shell looks whether bash runs commands, and how long the user's login shell, shell,
// takes to start: commands get their PATH from it.
func Shell(shell string) func(context.Context) Result {
	return func(ctx context.Context) Result {
		const remedy = "install bash, or leave the commands out with --capabilities=-shell"
		path, err := exec.LookPath("bash")
		if err != nil {
			return fail(remedy, "there is no bash in the PATH %s", os.Getenv("PATH"))
		}
		version, err := firstLine(ctx, path, "--noprofile", "--norc", "-c", "echo $BASH_VERSION")
		if err != nil {
			return fail(remedy, "%s is there and does not work: %v", path, err)
		}
		found := fmt.Sprintf("%s %s", path, version)
		if !filepath.IsAbs(shell) {
			return ok("%s", found)
		}
		limited, cancel := context.WithTimeout(ctx, loginTime)
		defer cancel()
		began := time.Now()
		if _, err := firstLine(limited, shell, "-l", "-c", "exit 0"); limited.Err() != nil || errors.Is(err, os.ErrNotExist) {
			return warn("look what in its profile waits; commands get the executor's own PATH until then",
				"%s; the login shell %s gives no answer within %v", found, shell, loginTime)
		}
		return ok("%s; the login shell %s takes %v", found, shell, time.Since(began).Round(time.Millisecond))
	}
}

// loginTime is what the executor gives the login shell.
const loginTime = 3 * time.Second

// Space is how much room there is in a file system: below warnBelow bytes is worth a
// word, below failBelow a failure. flag is what names another place, and full is what happens
// when nothing is left.
func Space(ctx context.Context, dir, flag, full string, warnBelow, failBelow uint64) Result {
	at := existing(dir)
	usage, err := disk.UsageWithContext(ctx, at)
	if err != nil {
		return skip("free space is not known: %v", err)
	}
	remedy := fmt.Sprintf("make room in the file system of %s, or name another place with %s", at, flag)
	text := fmt.Sprintf("%s free", bytesText(usage.Free))
	switch {
	case usage.Free < failBelow:
		return fail(remedy, "%s, less than the %s that are needed", text, bytesText(failBelow))
	case usage.InodesTotal > 0 && usage.InodesFree < 1000:
		return warn(remedy, "%s, but room for only %d more files; %s", text, usage.InodesFree, full)
	case usage.Free < warnBelow:
		return warn(remedy, "only %s; %s", text, full)
	}
	return ok("%s", text)
}

// existing is a directory, or the first above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func bytesText(n uint64) string {
	for _, u := range []struct {
		size uint64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// Join makes one result of several: the worst, with the texts and remedies of all that
// are not fine.
func Join(results ...Result) Result {
	rank := map[Status]int{OK: 0, Skip: 1, Warn: 2, Fail: 3}
	joined := Result{Status: OK}
	var texts, remedies []string
	for _, r := range results {
		if rank[r.Status] > rank[joined.Status] && r.Status != Skip {
			joined.Status = r.Status
		}
	}
	for _, r := range results {
		if r.Text != "" && (r.Status != OK || joined.Status == OK) {
			texts = append(texts, r.Text)
		}
		if r.Remedy != "" {
			remedies = append(remedies, r.Remedy)
		}
		joined.Details = append(joined.Details, r.Details...)
	}
	joined.Text, joined.Remedy = strings.Join(texts, "; "), strings.Join(remedies, "; ")
	return joined
}

// Of makes a result for those who check something of their own.
func Of(status Status, remedy, format string, args ...any) Result {
	return Result{Status: status, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}
