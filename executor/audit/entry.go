package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Event is what a line is about.
type Event string

// The events. What was decided and has no line that it ended was cut off: the next EventStart says where.
const (
	EventStart   Event = "start"   // the program has opened the log
	EventStop    Event = "stop"    // and closed it
	EventAsked   Event = "asked"   // the local user is asked
	EventDecided Event = "decided" // it is done, or not
	EventEnded   Event = "ended"   // what was done has ended
	EventLost    Event = "lost"    // lines could not be written before this one
	EventRemoved Event = "removed" // the files before this line were removed while they were written
	EventTorn    Event = "torn"    // the last line of a crash was cut off, and removed
)

// Entry is one line. What comes from the brain is redacted and bounded.
type Entry struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Event Event     `json:"event"`

	Brain      string `json:"brain,omitempty"`
	Executor   string `json:"executor,omitempty"` // as the brain calls it
	Connection string `json:"connection,omitempty"`
	Session    string `json:"session,omitempty"`
	Agent      string `json:"agent,omitempty"`
	User       string `json:"user,omitempty"` // of the session's metadata

	Tool       string `json:"tool,omitempty"` // or the method
	Method     bool   `json:"method,omitempty"`
	Call       string `json:"call,omitempty"` // tool_call_id, process_id
	Input      string `json:"input,omitempty"`
	InputBytes int    `json:"input_bytes,omitempty"`

	Decision string `json:"decision,omitempty"` // allow, deny
	By       string `json:"by,omitempty"`       // policy, remembered, user, expired, withdrawn, nobody
	Scope    string `json:"scope,omitempty"`    // once, session, always
	Who      string `json:"who,omitempty"`      // of the local user
	Rule     string `json:"rule,omitempty"`
	Why      string `json:"why,omitempty"`
	Approval string `json:"approval,omitempty"` // the ID it waited under

	Of         uint64   `json:"of,omitempty"` // the seq of the line that decided
	Outcome    string   `json:"outcome,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	IsError    bool     `json:"is_error,omitempty"`
	DurationMS int64    `json:"duration_ms,omitempty"`
	Mutations  []string `json:"mutations,omitempty"` // "modify a.txt"
	More       int      `json:"more_mutations,omitempty"`

	Lines   int64  `json:"lines,omitempty"`      // that were lost
	Rotated int    `json:"rotated_to,omitempty"` // the files up to this number were too old to be kept, and are removed
	Bytes   int64  `json:"bytes,omitempty"`      // that were torn
	PID     int    `json:"pid,omitempty"`
	Text    string `json:"text,omitempty"`

	// Prev is the hash of the line before, in the file before where this is a file's first.
	Prev string `json:"prev"`
}

// hashOf is what the next line carries of this one.
func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

func (e *Entry) encode() ([]byte, error) { return json.Marshal(e) }
