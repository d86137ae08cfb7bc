package shell

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/agent-executor/executor/capabilities"
	"github.com/agent-executor/executor/capabilities/internal/spawn"
	"github.com/agent-executor/executor/capabilities/internal/stream"
	"github.com/agent-executor/executor/protocol"
)

// liveBytes of output are sent in a second while the command runs.
const liveBytes = 64 << 10

// capture is what the streams of a call have in common: the limit on what is shown, the file for the
// whole, and what is sent while the command runs.
type capture struct {
	call      *capabilities.Call
	limit     int
	file      *stream.Spill
	spillPath string // set under the spill's lock, read after the end
	live      limiter
}

func newCapture(call *capabilities.Call, o Options) *capture {
	c := &capture{call: call, limit: o.InlineBytes - noteBytes}
	c.file = stream.NewSpill(c.limit, o.SpillBytes, func() (io.Writer, error) {
		f, path, err := call.Spill()
		c.spillPath = path
		return f, err
	})
	return c
}

// stream is one more stream of the call.
func (c *capture) stream() *stream.Output { return stream.NewOutput(c.limit, c.file) }

// sink takes the output for one of the streams, which goes by this name while the command runs.
func (c *capture) sink(name string, to *stream.Output) spawn.Sink {
	return func(p []byte) {
		if len(p) == 0 {
			_ = to.Close()
			return
		}
		_, _ = to.Write(p)
		if c.live.take(len(p)) {
			c.call.Output(name, p)
		}
	}
}

// omission is the line that stands for what a view leaves out.
func (c *capture) omission(v stream.View, name string) string {
	note := fmt.Sprintf("[… %d of %d bytes of %s omitted", v.Omitted, v.Total, name)
	if c.spillPath != "" {
		note += "; the whole output: " + c.spillPath
	}
	return note + " …]"
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

// damage sums up what the streams do not show as it was.
func damage(streams ...*stream.Output) (invalid, nuls int64) {
	for _, o := range streams {
		i, n := o.Damage()
		invalid += i
		nuls += n
	}
	return invalid, nuls
}

// most is how many processes a structured result lists.
const most = 64

func entriesOf(members []spawn.Member) []processEntry {
	entries := []processEntry{}
	for _, m := range members[:min(len(members), most)] {
		entries = append(entries, processEntry{m.PID, m.Command})
	}
	return entries
}

func survivorsOf(survivors []spawn.Survivor) []survivorEntry {
	entries := []survivorEntry{}
	for _, s := range survivors {
		entries = append(entries, survivorEntry{processEntry{s.PID, s.Command}, s.Reason})
	}
	return entries
}

// streamName is the stream that merged output goes by while the command runs.
const streamName = protocol.StreamStdout
