package redact

import (
	"encoding/json"
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Core puts r in front of a zap core: messages, stacks and fields go through it, in their names too. It may be
// used concurrently, as core may.
func Core(core zapcore.Core, r *Redactor) zapcore.Core { return logCore{core, r} }

type logCore struct {
	zapcore.Core
	r *Redactor
}

func (c logCore) With(fields []zapcore.Field) zapcore.Core {
	return logCore{c.Core.With(c.fields(fields)), c.r}
}

func (c logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message, e.Stack = c.r.String(e.Message), c.r.String(e.Stack)
	return c.Core.Write(e, c.fields(fields))
}

func (c logCore) fields(fields []zapcore.Field) []zapcore.Field {
	if c.r.matcher() == nil {
		return fields
	}
	clean := make([]zapcore.Field, len(fields))
	for i, f := range fields {
		clean[i] = c.field(f)
	}
	return clean
}

// field is f without secrets. Where there is one in more than a text, the whole value becomes a text.
func (c logCore) field(f zapcore.Field) zapcore.Field {
	f.Key = c.r.String(f.Key)
	switch f.Type {
	case zapcore.StringType:
		f.String = c.r.String(f.String)
		return f
	case zapcore.ByteStringType, zapcore.BinaryType:
		if p, ok := f.Interface.([]byte); ok {
			f.Interface = c.r.Bytes(p)
		}
		return f
	case zapcore.ErrorType, zapcore.StringerType, zapcore.ReflectType, zapcore.ArrayMarshalerType, zapcore.ObjectMarshalerType, zapcore.InlineMarshalerType:
	default:
		return f // numbers, times and the like
	}
	text, ok := textOf(f)
	clean := c.r.String(text)
	if ok && clean == text {
		return f
	}
	if err, is := f.Interface.(error); ok && is { // its details are left out
		clean = c.r.String(err.Error())
	}
	return zap.String(f.Key, clean)
}

// textOf is what a field of a type of somebody's says. What panics says nothing that may go out.
func textOf(f zapcore.Field) (text string, ok bool) {
	defer func() {
		if recover() != nil {
			text, ok = "[not readable]", false
		}
	}()
	switch f.Type {
	case zapcore.ErrorType:
		if err, is := f.Interface.(error); is && err != nil {
			return fmt.Sprintf("%s\n%+v", err.Error(), err), true
		}
	case zapcore.StringerType:
		if s, is := f.Interface.(fmt.Stringer); is && s != nil {
			return s.String(), true
		}
	}
	m := zapcore.NewMapObjectEncoder()
	f.AddTo(m)
	if raw, err := json.Marshal(m.Fields); err == nil {
		return string(raw), true
	}
	return fmt.Sprintf("%v", m.Fields), true
}
