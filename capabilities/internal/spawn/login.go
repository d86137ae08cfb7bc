package spawn

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// loginTime is how long the login shell may take, in all.
const loginTime = 3 * time.Second

// loginGrace is for a profile that is cut short to remove its locks.
const loginGrace = 300 * time.Millisecond

// Login is the environment of the user's login shell, asked for once in the life of the executor and
// shared from then on; the first caller waits, at most 3 seconds. It is nil when the shell gave no
// answer: Environment then stands on the executor's own. The map is not to be changed.
var Login = sync.OnceValue(func() map[string]string {
	return CaptureLogin(os.Getenv("SHELL"), os.Getenv("HOME"), loginTime)
})

// Login is the function of that name, asked of the user that the keeper's children run as, once in the
// life of the keeper, by a child like any other. A nil keeper shares the function's answer.
func (k *Keeper) Login() map[string]string {
	if k == nil {
		return Login()
	}
	k.loginOnce.Do(func() {
		shell, home := os.Getenv("SHELL"), os.Getenv("HOME")
		if l := k.policy(); l != nil && l.user != nil {
			shell, home = l.user.shell, l.user.home
		}
		k.login = k.captureLogin(shell, home, loginTime)
	})
	return k.login
}

// CaptureLogin runs the login shell and asks it for its environment: as an interactive login shell, with
// ~/.bashrc read when it is a bash, because that is where people set PATH; and if that gives no answer in
// half of the time, as a plain login shell. An empty shell or home means the account's. Banners, prompts and
// errors of profiles are not looked at; a profile that hangs or becomes another program costs the time
// limit, and the answer is nil.
func CaptureLogin(shell, home string, limit time.Duration) map[string]string {
	var none *Keeper
	return none.captureLogin(shell, home, limit)
}

func (k *Keeper) captureLogin(shell, home string, limit time.Duration) map[string]string {
	if runtime.GOOS == "windows" {
		return nil
	}
	if !filepath.IsAbs(shell) {
		shell = accountShell()
	}
	if shell == "" {
		shell = "/bin/sh"
	}
	if u, err := user.Current(); err == nil && home == "" {
		home = u.HomeDir
	}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:])
	mark := hex.EncodeToString(nonce[:])

	script := fmt.Sprintf(`printf '%%s' %[1]s; printf 'PATH=%%s\0' "$PATH"; env -0 2>/dev/null; printf '%%s' %[1]s`, mark)
	deadline := time.Now().Add(limit)
	full := script
	if filepath.Base(shell) == "bash" {
		full = `[ -r ~/.bashrc ] && . ~/.bashrc; ` + script
	}
	if env := k.askShell([]string{shell, "-i", "-l", "-c", full}, home, mark, limit/2); env != nil {
		return env
	}
	return k.askShell([]string{shell, "-l", "-c", script}, home, mark, time.Until(deadline))
}

// askShell runs the shell once. It is given little, so that what comes back is the profile's doing.
func (k *Keeper) askShell(argv []string, home, mark string, limit time.Duration) map[string]string {
	env := []string{"TERM=dumb", "SHELL=" + argv[0], "HOME=" + home}
	if l := k.policy(); l != nil && l.user != nil {
		env = append(env, "PATH="+defaultPath, "USER="+l.user.name, "LOGNAME="+l.user.name)
	} else {
		env = append(env, "PATH="+joinPaths(os.Getenv("PATH"), ""))
		if u, err := user.Current(); err == nil {
			env = append(env, "USER="+u.Username, "LOGNAME="+u.Username)
		}
	}
	for _, name := range []string{"LANG", "LC_ALL", "LC_CTYPE", "TMPDIR"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	var mu sync.Mutex
	var out bytes.Buffer
	var answered = make(chan struct{})
	collect := func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		if len(p) == 0 || out.Len() > 1<<20 { // a profile that prints without end
			return
		}
		out.Write(p)
		if between(out.Bytes(), mark) != nil {
			select {
			case <-answered:
			default:
				close(answered)
			}
		}
	}
	group := k.NewGroup()
	defer group.Close(loginGrace) // also what the profile left running
	dir := home
	if info, err := os.Stat(home); err != nil || !info.IsDir() {
		dir = "/"
	}
	p, err := group.Start(Command{Argv: argv, Dir: dir, Env: env, Stdout: collect, Raw: true})
	if err != nil {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-answered: // whatever a logout script does now is not waited for
	case <-p.Done():
	case <-timer.C:
	}
	mu.Lock()
	defer mu.Unlock()
	answer := between(out.Bytes(), mark)
	if answer == nil {
		return nil
	}
	found := parse(strings.Split(string(answer), "\x00"))
	for _, name := range append([]string{Marker, "TERM"}, dropped...) {
		delete(found, name)
	}
	return found
}

// between is what stands between the first two marks.
func between(text []byte, mark string) []byte {
	_, rest, ok := bytes.Cut(text, []byte(mark))
	if !ok {
		return nil
	}
	answer, _, ok := bytes.Cut(rest, []byte(mark))
	if !ok {
		return nil
	}
	return answer
}

// accountShell is the shell the account database names for this process's user, or "".
func accountShell() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return shellOf(u.Username)
}

// shellOf is the shell the account database names for a user, or "" where that is none to work with.
func shellOf(name string) string {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[0] == name && !strings.HasSuffix(f[6], "nologin") && !strings.HasSuffix(f[6], "/false") {
			return f[6]
		}
	}
	return ""
}
