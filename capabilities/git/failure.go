package git

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

// errGit is matched by what git itself said.
var errGit = errors.New("git failed")

// gitError is a failure of git's, with the error that stands for it on the wire.
type gitError struct{ said *protocol.Error }

func (e gitError) Error() string   { return e.said.Error() }
func (e gitError) Unwrap() []error { return []error{e.said, errGit} }

// meaning is what words of git's say.
type meaning struct {
	words *regexp.Regexp
	code  protocol.Code
	again bool // the same call may work a moment later
}

// meanings say by git's words what kind of failure it is. The first that matches counts.
var meanings = sync.OnceValue(func() []meaning {
	return []meaning{
		{regexp.MustCompile(`dubious ownership|unsafe repository`), protocol.CodeForbidden, false},
		{regexp.MustCompile(`is outside repository|beyond a symbolic link`), protocol.CodeForbidden, false},
		{regexp.MustCompile(`not a git repository|unknown revision|bad revision|ambiguous argument|does not have any commits yet|no such path|There is no path|` +
			`did not match any file|does not exist|bad object|Not a valid object name|Needed a single revision|bad default revision|No names found|no tag exactly matches|` +
			`no upstream configured|not stored as a remote-tracking branch|does not point to a branch|no such branch|exists on disk, but not in|exists, but not|is in the index, but not|` +
			`has only \d+ lines?|-L parameter .*: no match|unable to resolve`), protocol.CodeNotFound, false},
		// Somebody else wrote at the same moment, and was faster.
		{regexp.MustCompile(`\.lock': File exists|cannot lock ref|failed to lock|could not lock`), protocol.CodeConflict, true},
		{regexp.MustCompile(`(?m)nothing to commit|nothing added to commit|no changes added|unmerged|not concluded your merge|Please tell me who you are|` +
			`empty ident name|unable to auto-detect email|must be run in a work tree|You have nothing to amend|You asked to amend|` +
			// What is wrong with the repository itself.
			`index file (?:corrupt|smaller than expected|open failed)|bad index (?:file|version)|bad signature 0x|unmerged index|is corrupt|is empty$|unable to read (?:tree|[0-9a-f]{40})|` +
			`bad tree object|missing (?:blob|tree|object)|inflate: data stream error|bad config|bad (?:numeric|boolean) config value|missing value for|repository version|unknown repository extension`), protocol.CodeConflict, false},
		{regexp.MustCompile(`(?m)^usage: |^(?:error|fatal): (?:unknown|unrecognized|invalid|option|malformed|Invalid|could not parse)|` +
			`not an integer|not a non-negative integer|not a number|expects a (?:numerical|non-negative)|-L argument not|-L invalid|is in submodule|Invalid object name|` +
			`is not 'Name <email>'|empty commit message|[Ii]nvalid regular expression|invalid regex|cannot be used together|are incompatible|exactly one pathspec|pathspec magic`), protocol.CodeInvalidParams, false},
		{regexp.MustCompile(`No space left on device`), protocol.CodeResourceUnavailable, false},
		{regexp.MustCompile(`Permission denied`), protocol.CodeForbidden, false},
	}
})

// maxWords is how much of what git said is in an error.
const maxWords = 2000

// failure is the error of a git that ended with code, by what it said.
func failure(stderr, stdout string, code int) error {
	stderr = hideURLs(stderr)
	words := strings.TrimSpace(stderr)
	if words == "" {
		words = strings.TrimSpace(stdout)
	}
	if len(words) > maxWords {
		words = "… " + strings.ToValidUTF8(words[len(words)-maxWords:], "")
	}
	if words == "" {
		words = "it said nothing"
	}
	kind, again := protocol.CodeInternalError, false
	for _, m := range meanings() {
		if m.words.MatchString(stderr + "\n" + stdout) {
			kind, again = m.code, m.again
			break
		}
	}
	text := fmt.Sprintf("git failed with exit code %d: %s", code, strings.ToValidUTF8(words, "\uFFFD"))
	if strings.Contains(words, "Please tell me who you are") {
		text += "\nNobody's name is configured: user.name and user.email in the user's or the repository's configuration, or GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and GIT_COMMITTER_EMAIL in the environment."
	}
	return gitError{protocol.Errorf(kind, "%s", strings.ReplaceAll(text, "\x00", "\uFFFD")).WithRetryable(again)}
}
