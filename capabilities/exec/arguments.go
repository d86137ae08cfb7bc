package exec

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/protocol"
)

// checkArguments refuses arguments that lead out of the roots, and returns them as the program is to get them:
// one of the form $'…' is a name that is not plain text, see [capabilities.UnquoteName].
//
// A program takes its arguments apart in ways of its own, so every part that may be a path is looked at: the
// whole; what is behind an equals sign, a colon or a comma; what is behind an @; what is behind the letter
// of a short option. What is in a URL is none, unless it is one of a file; the whole of it still is. White space in front
// of a path hides it from no program that drops it; brackets and bars belong to the name without a shell.
func checkArguments(w *capabilities.Workspace, args []string) ([]string, error) {
	names := make([]string, len(args))
	for i, arg := range args {
		names[i] = capabilities.UnquoteName(arg)
		if strings.ContainsRune(names[i], 0) {
			return nil, protocol.Errorf(protocol.CodeInvalidParams, "args[%d]: contains a NUL character, which no argument can", i)
		}
		for _, part := range parts(names[i]) {
			if err := checkPart(w, part); err != nil {
				return nil, protocol.Errorf(protocol.CodeForbidden, "args[%d]: %s is refused: %s in it leads out of the workspace (%s). Allowed are paths below it",
					i, capabilities.QuoteName(arg), capabilities.QuoteName(part), roots(w)).WithReason(protocol.ReasonWorkspaceBoundary)
			}
		}
	}
	return names, nil
}

func roots(w *capabilities.Workspace) string {
	var list []string
	for _, root := range w.Roots() {
		list = append(list, capabilities.QuoteName(root.Path))
	}
	return strings.Join(list, ", ")
}

var (
	url = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s]*`)
	})
	fileURL = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\bfile:(?://[^/\s]*)?(/[^\s]*)`)
	})
)

// parts are what of an argument may be a path.
func parts(arg string) []string {
	list := []string{arg, strings.TrimSpace(arg)}
	if _, value, ok := strings.Cut(arg, "="); ok {
		list = append(list, strings.TrimSpace(value))
	}
	for _, m := range fileURL().FindAllStringSubmatch(arg, -1) {
		list = append(list, m[1])
	}
	arg = url().ReplaceAllString(arg, "")
	pieces := strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune("=:,;@\"'", r) || r == os.PathListSeparator })
	list = append(list, pieces...)
	for _, piece := range append([]string{arg}, pieces...) {
		if len(piece) > 2 && piece[0] == '-' && piece[1] != '-' {
			list = append(list, piece[2:]) // -I/usr/include, -o../x
			// Letters in front: -xzf/etc/passwd.
			if rest := strings.TrimLeft(piece[1:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"); rest != "" {
				list = append(list, rest)
			}
		}
	}
	return list
}

// checkPart looks at one part. What is no path at all, and what cannot be one, is inside.
func checkPart(w *capabilities.Workspace, part string) error {
	if part == "" {
		return nil
	}
	if part == "~" || strings.HasPrefix(part, "~/") {
		// Programs that expand it do so without a shell.
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		part = filepath.Join(home, part[1:])
	} else if strings.HasPrefix(part, "~") && strings.Contains(part, "/") {
		return protocol.ErrForbidden // somebody's home
	}
	_, err := w.Resolve(capabilities.QuoteName(part))
	if errors.Is(err, protocol.ErrForbidden) {
		return err
	}
	return nil
}
