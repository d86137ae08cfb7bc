package program

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
)

const (
	// NoteBytes of a result are for the lines about the program; the rest is its output.
	NoteBytes = 2 << 10
	// liveBytes of output are sent in a second while the program runs.
	liveBytes = 64 << 10
)

// Streams is what the output streams of one call have in common: the limit on what is
// shown, the file for the whole, and what is sent while the program runs. Its sinks may
// run on a goroutine each; the rest is for when they have ended.
type Streams struct {
	Limit int // of bytes that are shown, of all streams together

	call *capabilities.Call
	file *stream.Spill
	path string   // of file; set under its lock
	live *limiter // nil: nothing is sent while the program runs
}

// NewStreams makes the streams of a call whose result has so many bytes of text, with
// up to spill bytes of the raw output in a file when there is more.
func NewStreams(call *capabilities.Call, inline int, spill int64, live bool) *Streams {
	s := &Streams{call: call, Limit: inline - NoteBytes}
	if live {
		s.live = &limiter{}
	}
	s.file = stream.NewSpill(s.Limit, spill, func() (io.Writer, error) {
		f, path, err := call.Spill()
		s.path = path
		return f, err
	})
	return s
}

// Stream is one more stream of the call.
func (s *Streams) Stream() *stream.Output { return stream.NewOutput(s.Limit, s.file) }

// Sink takes the output for one of the streams, which goes by this name while the
// program runs.
func (s *Streams) Sink(name string, to *stream.Output) spawn.Sink {
	return func(p []byte) {
		if len(p) == 0 {
			_ = to.Close()
			return
		}
		_, _ = to.Write(p)
		if s.live != nil && s.live.take(len(p)) {
			s.call.Output(name, p)
		}
	}
}

// Path is the file of the whole output as it is told to the model, "" when there is none.
func (s *Streams) Path() string { return s.path }

// Omission is the line that stands for what a view leaves out.
func (s *Streams) Omission(v stream.View, name string) string {
	note := fmt.Sprintf("[… %d of %d bytes of %s omitted", v.Omitted, v.Total, name)
	if s.path != "" {
		note += "; the whole output: " + s.path
	}
	return note + " …]"
}

// Damage sums up what the streams do not show as it was.
func Damage(streams ...*stream.Output) (invalid, nuls int64) {
	for _, o := range streams {
		i, n := o.Damage()
		invalid += i
		nuls += n
	}
	return invalid, nuls
}

// limiter lets some bytes through in each second: what is shown live must not crowd out the connection.
type limiter struct {
	mu     sync.Mutex
	second time.Time
	used   int
}

func (l *limiter) take(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.second) >= time.Second {
		l.second, l.used = now, 0
	}
	if l.used+n > liveBytes {
		return false
	}
	l.used += n
	return true
}
