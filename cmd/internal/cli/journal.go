package cli

import (
	"io"
	"os"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// LogFormatOf is the format that "auto" stands for: "journal" when w is a stream to
// systemd's journal, as JOURNAL_STREAM says, else "console". Any other format is itself.
func LogFormatOf(format string, w io.Writer) string {
	if format != "auto" {
		return format
	}
	if f, ok := w.(*os.File); ok && isJournal(f, os.Getenv("JOURNAL_STREAM")) {
		return "journal"
	}
	return "console"
}

// journalEncoder writes lines for the journal: <N> in front is the priority, which it
// takes off, and the time is the journal's own.
type journalEncoder struct {
	zapcore.Encoder
	pool buffer.Pool
}

func newJournalEncoder(c zapcore.EncoderConfig) zapcore.Encoder {
	c.TimeKey, c.LevelKey = zapcore.OmitKey, zapcore.OmitKey
	return journalEncoder{zapcore.NewConsoleEncoder(c), buffer.NewPool()}
}

func (e journalEncoder) Clone() zapcore.Encoder { return journalEncoder{e.Encoder.Clone(), e.pool} }

func (e journalEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	text, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil {
		return nil, err
	}
	line := e.pool.Get()
	line.AppendString(priority(entry.Level))
	_, _ = line.Write(text.Bytes())
	text.Free()
	return line, nil
}

// priority is syslog's, as sd-daemon(3) has it.
func priority(l zapcore.Level) string {
	switch {
	case l >= zapcore.DPanicLevel:
		return "<2>"
	case l >= zapcore.ErrorLevel:
		return "<3>"
	case l >= zapcore.WarnLevel:
		return "<4>"
	case l >= zapcore.InfoLevel:
		return "<6>"
	}
	return "<7>"
}
