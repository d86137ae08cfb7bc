package protocol

import (
	"encoding/json"
	"errors"
	"math"
	"time"
)

// Names and subprotocols (spec section 1.2), newest first.
const (
	Version1         = "executor.v1"
	TerminalVersion1 = "executor.terminal.v1"
	DialectBMA11     = "bma.executor.v1.1"
	DialectBMA10     = "bma.executor.v1"
)

// Defaults (spec section 13). Sizes are bytes.
const (
	DefaultHeartbeatInterval = 10 * time.Second
	DefaultLeaseTTL          = 30 * time.Second
	DefaultRequestTimeout    = 30 * time.Second
	DefaultMinBackoff        = 500 * time.Millisecond
	DefaultMaxBackoff        = 30 * time.Second
	DefaultResultRetryMin    = time.Second
	DefaultResultRetryMax    = 30 * time.Second
	DefaultDrainTimeout      = 30 * time.Second
	DefaultPingInterval      = 10 * time.Second
	DefaultDeadAfter         = 25 * time.Second

	DefaultProcessRing           = 1 << 20
	DefaultMaxProcesses          = 32
	DefaultMaxProcessRead        = 256 << 10
	DefaultMaxProcessWrite       = 64 << 10
	DefaultMaxProcessReads       = 32
	DefaultMaxControlFrame       = 1 << 20
	DefaultMaxMCPFrame           = 4 << 20
	DefaultMaxArtifact           = 64 << 20
	DefaultMaxInFlight           = 64
	DefaultInlineResult          = 32 << 10
	DefaultBashTimeout           = 120 * time.Second
	MaxBashTimeout               = 600 * time.Second
	DefaultStoredResultsPerScope = 256
)

// Millis is a duration of the wire, which may be longer than a Go one: then it is the
// longest of those.
func Millis(ms int64) time.Duration {
	if ms > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// Limits is the `limits` member of the register result. Sizes are bytes; zero
// means the default.
type Limits struct {
	MaxArtifactBytes          int64 `json:"max_artifact_bytes,omitempty"`
	MaxConcurrentProcessReads int   `json:"max_concurrent_process_reads,omitempty"`
	MaxInflightRequests       int   `json:"max_inflight_requests,omitempty"`
	MaxProcessReadBytes       int   `json:"max_process_read_bytes,omitempty"`
	MaxProcessWriteBytes      int   `json:"max_process_write_bytes,omitempty"`
	MaxProcessesPerSession    int   `json:"max_processes_per_session,omitempty"`
}

// DefaultLimits returns the limits of spec section 13.
func DefaultLimits() Limits {
	return Limits{
		MaxArtifactBytes:          DefaultMaxArtifact,
		MaxConcurrentProcessReads: DefaultMaxProcessReads,
		MaxInflightRequests:       DefaultMaxInFlight,
		MaxProcessReadBytes:       DefaultMaxProcessRead,
		MaxProcessWriteBytes:      DefaultMaxProcessWrite,
		MaxProcessesPerSession:    DefaultMaxProcesses,
	}
}

// Time is a moment on the wire: RFC 3339 in UTC with six digits of fraction. The
// zero Time is absent.
type Time struct{ time.Time }

// Now returns the current moment.
func Now() Time { return At(time.Now()) }

// At makes a wire time of t, cut to microseconds and without a monotonic part.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Microsecond)} }

const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

var errTime = errors.New("not a time as in RFC 3339")

// MarshalJSON writes the fraction even when it is zero.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(make([]byte, 0, 32), `"`+timeLayout+`"`), nil
}

// UnmarshalJSON reads RFC 3339 with any fraction and offset; null leaves t as it
// is.
func (t *Time) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return errTime
	}
	parsed, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return errTime
	}
	parsed = parsed.UTC()
	if y := parsed.Year(); y < 0 || y > 9999 { // by its offset, and could not be written again
		return errTime
	}
	t.Time = parsed
	return nil
}
