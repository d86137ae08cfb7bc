package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// maxArgument is the longest text handed over as one argument. Linux refuses a single argument of
// 131,072 bytes including its final NUL, whatever the limit on the sum; well below it a script takes
// the other way.
const maxArgument = 128<<10 - 1024

// Sink takes the output of one stream. It is called by one goroutine at a time, in order of arrival,
// with a slice that is valid only during the call. An empty slice, once, is the end: no call follows.
// A Sink that blocks stops the reading of its pipe and holds up Process.Wait.
type Sink func(p []byte)

// Command says what to start. Either Argv or Script is set, or both: then Argv is the shell and its
// options, to which "-c" and the script are added. Script alone runs under bash. A script may be of
// any length; one too long for an argument is handed over through a descriptor.
type Command struct {
	Argv   []string
	Script string
	// Dir is the working directory; empty means the executor's own.
	Dir string
	// Env is the whole environment, as NAME=value; later entries win. Environment makes one. Nil
	// means an empty environment, never the executor's.
	Env []string

	// Stdin is what the child reads; nil means the null device. The caller keeps it and closes it.
	Stdin *os.File
	// Input, instead of Stdin, opens a pipe whose other end is Process.Stdin.
	Input bool
	// Stdout and Stderr take the output; nil means the null device.
	Stdout, Stderr Sink
	// Merge sends standard error into the pipe of standard output.
	Merge bool
	// Raw says that the output is for the executor alone, and is not changed by Launch.Mask.
	Raw bool
	// Follow keeps the sinks attached after the exit, until the last holder of the pipe has closed it.
	Follow bool
	// Terminal, when set, is the child's standard input, output and error and its controlling
	// terminal (the far side of a PTY). The caller keeps it and closes it. Stdin, Stdout, Stderr,
	// Input and Merge are then not used. Unix only.
	Terminal *os.File
	// Extra become descriptors 3, 4, … of the child. The caller keeps them and closes them.
	Extra []*os.File

	boxed []*os.File // more descriptors, for the sandbox
	told  *os.File   // where the sandbox tells which process is the command; nil: what is started
}

// StartError says why a command did not start.
type StartError struct {
	Program    string // the first word of the command
	Dir        string // where it was to run
	DirMissing bool   // Dir is not there, or is not a directory
	PATH       string // the PATH the program was looked for in; empty when it was named by a path
	Err        error  // the system's words
}

func (e *StartError) Error() string {
	switch {
	case e.DirMissing:
		return fmt.Sprintf("start %s: working directory %s: %v", e.Program, e.Dir, e.Err)
	case e.PATH != "":
		return fmt.Sprintf("start %s: %v (PATH=%s)", e.Program, e.Err, e.PATH)
	}
	return fmt.Sprintf("start %s: %v", e.Program, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// ErrClosed is returned by Start after Close.
var ErrClosed = errors.New("process group is closed")

// program resolves the words of the command: the file to execute and its arguments. The script file,
// when there is one, is to be passed as the child's next extra descriptor and closed after the start.
func (c *Command) program(l *launch) (file string, argv []string, script *os.File, err error) {
	argv = slices.Clone(c.Argv)
	if len(argv) == 0 && c.Script != "" {
		argv = []string{"bash"}
	}
	if len(argv) == 0 || argv[0] == "" {
		return "", nil, nil, &StartError{Dir: c.Dir, Err: errors.New("no command given")}
	}
	name := argv[0] // what an error is about
	fail := func(err error) error { return c.failure(name, err) }
	argv, script, err = c.script(argv)
	if err != nil {
		return "", nil, nil, fail(err)
	}
	defer func() {
		if err != nil && script != nil {
			_ = script.Close()
			script = nil
		}
	}()
	what := Launching{Argv: argv, Dir: c.Dir, Env: c.Env}
	rewritten, err := l.rewrite(&what)
	if err != nil {
		return "", nil, script, &StartError{Program: name, Dir: c.Dir, Err: err}
	}
	argv, c.Dir, c.Env = what.Argv, what.Dir, what.Env
	for _, list := range [][]string{argv, {c.Dir}, c.Env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return "", nil, script, fail(errors.New("a NUL byte in the command, its directory or its environment"))
			}
		}
	}
	if c.Dir != "" {
		// Asked first: the error of the start itself does not say whether the program or the
		// directory is missing.
		info, err := os.Stat(c.Dir)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "chdir", Path: c.Dir, Err: errors.New("not a directory")}
		}
		if err != nil {
			return "", nil, script, &StartError{Program: name, Dir: c.Dir, DirMissing: true, Err: bare(err)}
		}
	}
	if rewritten {
		if file, err = l.lookup(argv[0], c.Dir); err != nil {
			return "", nil, script, &StartError{Program: argv[0], Dir: c.Dir, PATH: os.Getenv("PATH"), Err: bare(err)}
		}
	} else if file, err = lookPath(name, c.Dir, lookup(c.Env, "PATH")); err != nil {
		return "", nil, script, fail(err)
	}
	if l.confined() {
		if file, argv, err = c.enclose(l, file, argv, script); err != nil {
			return "", nil, script, &StartError{Program: name, Dir: c.Dir, Err: err}
		}
	}
	return file, argv, script, nil
}

// script adds the script, if any, to the words of the shell; a long one is in the file.
func (c *Command) script(argv []string) (_ []string, file *os.File, err error) {
	if c.Script == "" {
		return argv, nil, nil
	}
	if len(c.Script) < maxArgument {
		return append(argv, "-c", c.Script), nil, nil
	}
	if strings.IndexByte(c.Script, 0) >= 0 {
		return nil, nil, errors.New("a NUL byte in the command")
	}
	file, err = scriptFile(c.Script)
	if err != nil {
		return nil, nil, fmt.Errorf("hand over a script of %d bytes: %w", len(c.Script), err)
	}
	// The text is read before eval runs it, so its first words can close the descriptor: neither the
	// script nor its children see it. They share a line with the script to keep line numbers; the line
	// end that $() took off is put back.
	fd := 3 + len(c.Extra)
	return append(argv, "-c", fmt.Sprintf(`eval "exec %d<&-; $(</dev/fd/%d)"$'\n'`, fd, fd)), file, nil
}

func (c *Command) failure(program string, err error) error {
	e := &StartError{Program: program, Dir: c.Dir, Err: bare(err)}
	if !strings.ContainsRune(program, filepath.Separator) {
		e.PATH = lookup(c.Env, "PATH")
	}
	if tooBig(err) {
		size := 0
		for _, s := range c.Env {
			size += len(s) + 1
		}
		e.PATH = ""
		e.Err = fmt.Errorf("%w (the environment has %d bytes in %d variables)", e.Err, size, len(c.Env))
	}
	return e
}

// bare strips the operation and the path from a system error; StartError names them better.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// LookPath is the file that a program's name means to a child that would be started in dir with that
// environment. A name with a slash is returned as it is, and is relative to dir.
func LookPath(name, dir string, env []string) (string, error) {
	return lookPath(name, dir, lookup(env, "PATH"))
}

// lookPath finds a program in the PATH the child will have, not in the executor's own. Relative
// entries count from the child's working directory.
func lookPath(name, dir, path string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || runtime.GOOS == "windows" && strings.ContainsRune(name, '/') {
		return name, nil // resolved by the system, from the child's directory
	}
	var denied error
	for _, entry := range filepath.SplitList(path) {
		if entry == "" {
			entry = "."
		}
		if !filepath.IsAbs(entry) {
			entry = filepath.Join(dir, entry)
		}
		for _, suffix := range executableSuffixes(name) {
			file := filepath.Join(entry, name+suffix)
			info, err := os.Stat(file)
			if err != nil || info.IsDir() {
				continue
			}
			if runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
				denied = fmt.Errorf("%s: %w", file, fs.ErrPermission)
				continue
			}
			if !filepath.IsAbs(file) {
				file = "." + string(filepath.Separator) + file
			}
			return file, nil
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", errNotFound
}

// errNotFound matches fs.ErrNotExist and keeps the words a user knows from the shell.
var errNotFound = fmt.Errorf("command not found%w", silent{fs.ErrNotExist})

type silent struct{ error }

func (s silent) Error() string { return "" }
func (s silent) Unwrap() error { return s.error }

// lookup finds a variable in an environment; the last entry wins.
func lookup(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
