package cli

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Levels and formats of logs.
var (
	LogLevels  = []string{"debug", "info", "warn", "error"}
	LogFormats = []string{"auto", "console", "json", "journal"}
)

// Logger makes the program's logger. Nothing is left out by sampling.
func Logger(w io.Writer, level, format string) (*zap.Logger, error) {
	l := zap.NewAtomicLevel()
	if err := SetLevel(l, level); err != nil {
		return nil, err
	}
	return LoggerAt(w, l, format), nil
}

// SetLevel sets a level, which is one of LogLevels.
func SetLevel(l zap.AtomicLevel, level string) error {
	var to zapcore.Level
	if err := to.Set(level); err != nil {
		return Usagef("log level %q: want debug, info, warn or error", level)
	}
	l.SetLevel(to)
	return nil
}

// LoggerAt is Logger with a level that may be changed at any time.
func LoggerAt(w io.Writer, level zap.AtomicLevel, format string) *zap.Logger {
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime = zapcore.ISO8601TimeEncoder
	c.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(c)
	if format != "json" {
		c.ConsoleSeparator = "  "
		c.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(c)
		if format == "journal" {
			encoder = newJournalEncoder(c)
		}
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}

// SyncLogger writes out what is buffered. A terminal or a pipe cannot be synced,
// which is no error.
func SyncLogger(log *zap.Logger) error {
	if err := log.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTTY) {
		return err
	}
	return nil
}

// Redactor is a writer that lets no secret through that it was told: a server's
// answer that repeats the token, for instance, is in an error and so in the log. It
// may be used concurrently.
type Redactor struct {
	w io.Writer

	mu      sync.Mutex
	secrets [][]byte
}

// NewRedactor makes a Redactor in front of w.
func NewRedactor(w io.Writer) *Redactor { return &Redactor{w: w} }

// maxSecrets are remembered, the newest: a token source may give ever new ones.
const maxSecrets = 16

// Add tells it a secret. Short ones are not: they would tear up ordinary text.
func (r *Redactor) Add(secret string) {
	if len(secret) < 8 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// One that is told again is the newest again.
	r.secrets = slices.DeleteFunc(r.secrets, func(s []byte) bool { return string(s) == secret })
	r.secrets = append(r.secrets, []byte(secret))
	if len(r.secrets) > maxSecrets {
		r.secrets = r.secrets[1:]
	}
}

// Write writes one whole message.
func (r *Redactor) Write(p []byte) (int, error) {
	if _, err := r.w.Write(r.redact(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Redact returns s without secrets.
func (r *Redactor) Redact(s string) string { return string(r.redact([]byte(s))) }

func (r *Redactor) redact(p []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.secrets {
		p = bytes.ReplaceAll(p, s, []byte("[redacted]"))
	}
	return p
}
