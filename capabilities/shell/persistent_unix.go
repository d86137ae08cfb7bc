//go:build unix

package shell

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"golang.org/x/sys/unix"
)

// setup is what a persistent shell is told first. SIGURG, which nothing else sends, ends what runs when
// its present command ends, also if that took the interrupt for itself; between commands, when standard
// input is the pipe of the requests, it does nothing.
const setup = `set +o history +H; history -c; shopt -u checkwinsize; unset HISTFILE PROMPT_COMMAND MAILCHECK TMOUT; PS1= PS2=; ` +
	`trap '[[ -p /dev/stdin ]] || builtin kill -INT $BASHPID' URG` + "\n"

// setupEnd makes the shell write down at its end where it was, in a file.
const setupEnd = `trap '\builtin printf %%s "${PWD-}" >|'%s EXIT` + "\n"

// persistent is one bash that runs one command after another. It is an interactive one without a
// terminal: such a bash stays when a command is interrupted or has an error that would end a script.
//
// Its requests are lines on its standard input, its answers come from its standard output. A command is
// a file that is read with the builtin `.`, with other files in the place of those two. Bash keeps them
// meanwhile under numbers that are closed in what it starts, so that no command and no child has them.
//
// It is used by one goroutine at a time.
type persistent struct {
	p    *spawn.Process
	in   *os.File // for requests; deaf says that one could not be written
	deaf bool
	told int        // how many bytes of requests were written
	left spawn.Left // of earlier commands
	last string     // $! after the last command
	code int        // $?
	cwd  string
	end  string // the file that says where it was at its end

	mu     sync.Mutex
	said   []byte   // of an answer that is not complete
	wanted []string // what the next answer begins with
	answer chan status
}

// status is what the shell says after a command.
type status struct {
	code int
	last string // $!
	// options is $-; a shell that has become a restricted one, with r, takes no more commands.
	options string
	pwd     string
}

func startPersistent(group *spawn.Group, env []string, dir, end string) (*persistent, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	sh := &persistent{in: write, cwd: dir, end: end, answer: make(chan status, 1)}
	sh.p, err = group.Start(spawn.Command{
		Argv:   []string{"bash", "--noprofile", "--norc", "--noediting", "-i"},
		Dir:    dir,
		Env:    append(env, "HISTFILE="),
		Stdin:  read,
		Stdout: sh.heard,
		Raw:    true, // what it answers; what commands print has a pipe of its own
	})
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	sh.tell(setup + fmt.Sprintf(setupEnd, quoted(quoted(end))))
	return sh, nil
}

// tell writes lines for the shell. One that does not read them is found out by what does not come.
func (sh *persistent) tell(lines string) {
	_ = sh.in.SetWriteDeadline(time.Now().Add(time.Second))
	n, err := sh.in.WriteString(lines)
	sh.told += n
	if err != nil {
		sh.deaf = true
	}
}

// unread is how many bytes of the lines the shell has not read; -1 when that is not known.
func (sh *persistent) unread() int {
	n := -1
	if conn, err := sh.in.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			if got, err := unix.IoctlGetInt(int(fd), fionread); err == nil {
				n = got
			}
		})
	}
	return n
}

// heard takes what the shell says. Between the answers there may be anything: what traps print.
func (sh *persistent) heard(p []byte) {
	const most = 64 << 10
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.said = append(sh.said, p...)
	for {
		end := bytes.IndexByte(sh.said, 0)
		if end < 0 {
			break
		}
		record := string(sh.said[:end])
		sh.said = append(sh.said[:0], sh.said[end+1:]...)
		for _, nonce := range sh.wanted {
			if st, ok := statusIn(record, nonce); ok {
				sh.wanted = nil
				sh.answer <- st // there is room: one answer is wanted at a time
				break
			}
		}
	}
	if len(sh.said) > most {
		sh.said = append(sh.said[:0], sh.said[len(sh.said)-most/2:]...)
	}
}

func statusIn(record, nonce string) (st status, ok bool) {
	at := strings.LastIndex(record, nonce+" ")
	if at < 0 {
		return status{}, false
	}
	fields := strings.SplitN(record[at+len(nonce)+1:], " ", 4)
	if len(fields) != 4 {
		return status{}, false
	}
	code, err := strconv.Atoi(fields[0])
	return status{code, fields[1], fields[2], fields[3]}, err == nil
}

// ask is the line that makes the shell answer. What the answer begins with cannot be known before.
func (sh *persistent) ask() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	nonce := hex.EncodeToString(random[:])
	sh.mu.Lock()
	sh.wanted = append(sh.wanted, nonce)
	sh.mu.Unlock()
	return `\builtin printf '%s %s %s %s %s\0' ` + nonce + ` "$?" "${!-}" "$-" "${PWD-}"`
}

// expectNothing forgets about an answer that did not come, or came too late.
func (sh *persistent) expectNothing() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.wanted = nil
	select {
	case <-sh.answer:
	default:
	}
}

// alive says whether the shell is there. One that became another program by exec is not.
func (sh *persistent) alive() bool {
	select {
	case <-sh.p.Exited():
		return false
	default:
		return true
	}
}

// interrupt makes the shell give up what it does.
func (sh *persistent) interrupt() {
	for _, sig := range []os.Signal{syscall.SIGURG, syscall.SIGINT, syscall.SIGCONT} {
		_ = sh.p.Signal(sig)
	}
}

// kill ends the shell, and nothing of what it has started.
func (sh *persistent) kill() {
	_ = sh.p.Signal(os.Kill)
	select {
	case <-sh.p.Exited():
	case <-time.After(2 * time.Second): // it cannot be ended; its group tries again
	}
}

// close lets the shell end by itself, or kills it.
func (sh *persistent) close() {
	_ = sh.in.Close()
	select {
	case <-sh.p.Exited():
	case <-time.After(200 * time.Millisecond):
		sh.kill()
	}
}

// opens says whether the shell can open files for a command at all: one that has no descriptor free
// cannot, and then runs nothing.
func (sh *persistent) opens() bool {
	sh.tell(`\builtin : </dev/null >|/dev/null; ` + sh.ask() + "\n")
	select {
	case st := <-sh.answer:
		return st.code == 0
	case <-sh.p.Exited():
	case <-time.After(answerTime):
	}
	return false
}

// find asks where the shell is: under the name it has for that, if it is the right one.
func (sh *persistent) find(pwd string) {
	link := "/proc/" + strconv.Itoa(sh.p.PID()) + "/cwd"
	if here, err := os.Stat(link); err == nil {
		if named, err := os.Stat(pwd); err != nil || !filepath.IsAbs(pwd) || !os.SameFile(here, named) {
			if real, err := os.Readlink(link); err == nil {
				sh.cwd = strings.TrimSuffix(real, " (deleted)")
				return
			}
		}
	}
	if filepath.IsAbs(pwd) {
		sh.cwd = pwd
	}
}

// leave finds where a shell that has ended was at last, if it could say so.
func (sh *persistent) leave() {
	if pwd, err := os.ReadFile(sh.end); err == nil && filepath.IsAbs(string(pwd)) {
		sh.cwd = string(pwd)
	}
	_ = os.Remove(sh.end)
}

// astray says that the directory of the shell has been removed, or replaced by another one.
func (sh *persistent) astray() bool {
	named, err := os.Stat(sh.cwd)
	if err != nil {
		return true
	}
	here, err := os.Stat("/proc/" + strconv.Itoa(sh.p.PID()) + "/cwd")
	return err == nil && !os.SameFile(here, named)
}

// quoted makes one word of any text.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// pipes is a private directory for the files of a session's commands. It is used by one goroutine at a
// time; whoever made it removes it.
type pipes struct {
	children *spawn.Keeper
	dir      string   // empty before the first
	held     *os.File // dir, locked: as long as it is, nobody takes it for a left one
	number   int
}

// files are those of one command.
type files struct {
	text   string // the name of what is to be run
	output string // the name of the pipe for its output
	read   *os.File
	write  *os.File // held so that the pipe does not end before it has begun
}

func (d *pipes) make(text string) (f files, err error) {
	if err := d.open(); err != nil {
		return files{}, err
	}
	d.number++
	f.text = filepath.Join(d.dir, strconv.Itoa(d.number))
	f.output = f.text + "o"
	defer func() {
		if err != nil {
			f.remove()
			err = fmt.Errorf("make the files of the command: %w", err)
		}
	}()
	if err = os.WriteFile(f.text, []byte(text+"\n"), 0o600); err != nil { // a backslash at the very end goes on to the next line, as in a file
		return f, err
	}
	if err = syscall.Mkfifo(f.output, 0o600); err != nil {
		return f, err
	}
	if err = d.children.Give(f.text, f.output); err != nil {
		return f, err
	}
	if f.read, err = openPipe(f.output, syscall.O_RDONLY); err != nil {
		return f, err
	}
	if f.write, err = openPipe(f.output, syscall.O_WRONLY); err != nil {
		_ = f.read.Close()
	}
	return f, err
}

// open makes the directory.
func (d *pipes) open() (err error) {
	if d.dir == "" {
		if d.dir, d.held, err = privateDir(d.children.Scratch()); err == nil {
			err = d.children.Give(d.dir)
		}
	}
	return err
}

// remove removes the names: nobody is to find the pipe any more.
func (f files) remove() {
	_ = os.Remove(f.text)
	_ = os.Remove(f.output)
}

// remove removes the directory.
func (d *pipes) remove() {
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
		_ = d.held.Close()
	}
}

// dirPrefix begins the names of private directories.
const dirPrefix = "exsh-"

// privateDir makes a directory in scratch or, when that is empty, in memory where the system has a place for that, and removes those that
// killed executors have left there.
func privateDir(scratch string) (dir string, held *os.File, err error) {
	parent := scratch
	if parent == "" {
		parent = "/dev/shm"
	}
	if dir, err = os.MkdirTemp(parent, dirPrefix); err != nil {
		parent = os.TempDir()
		if dir, err = os.MkdirTemp(parent, dirPrefix); err != nil {
			return "", nil, err
		}
	}
	if held, err = lockDir(dir); err != nil {
		_ = os.Remove(dir)
		return "", nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	left, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	for _, other := range left {
		if info, err := os.Lstat(other); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // it may be about to be locked
		}
		if lock, err := lockDir(other); err == nil { // its owner is gone
			_ = os.RemoveAll(other)
			_ = lock.Close()
		}
	}
	return dir, held, nil
}

// lockDir locks a directory of ours that nobody has locked, until it is closed or we are gone.
func lockDir(dir string) (*os.File, error) {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	var st syscall.Stat_t
	if err = syscall.Fstat(fd, &st); err == nil && int(st.Uid) != os.Geteuid() && os.Geteuid() != 0 {
		err = syscall.EPERM
	}
	if err == nil {
		err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func openPipe(name string, mode int) (*os.File, error) {
	fd, err := syscall.Open(name, mode|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
