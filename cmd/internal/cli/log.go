package cli

import (
	"errors"
	"io"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/agent-executor/executor/executor/redact"
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
	w       io.Writer
	secrets *redact.Redactor
}

// NewRedactor makes a Redactor in front of w.
func NewRedactor(w io.Writer) *Redactor { return &Redactor{w, redact.New()} }

// Add tells it a secret. Short ones are ignored: they would tear up ordinary text. The newest 16 are remembered.
func (r *Redactor) Add(secret string) { r.secrets.Renew(secret) }

// Secrets are those that it was told.
func (r *Redactor) Secrets() *redact.Redactor { return r.secrets }

// Write writes one whole message.
func (r *Redactor) Write(p []byte) (int, error) {
	if _, err := r.w.Write(r.secrets.Bytes(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Redact returns s without secrets.
func (r *Redactor) Redact(s string) string { return r.secrets.String(s) }
