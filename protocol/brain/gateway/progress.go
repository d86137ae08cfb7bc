package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-executor/executor/protocol"
)

const (
	progressEvery = 100 * time.Millisecond // at most one notification in that time
	maxProgress   = 8 << 10                // bytes of text in one; of more the newest are kept
)

// progress tells a client what a call says while it runs. It has one goroutine, which
// end waits for.
type progress struct {
	session *mcp.ServerSession
	token   any
	ended   chan struct{}
	cancel  context.CancelFunc

	mu   sync.Mutex
	text []byte // not told yet
	left int64  // bytes before it that will not be
	wake chan struct{}
}

func newProgress(ctx context.Context, s *mcp.ServerSession, token any) *progress {
	p := &progress{session: s, token: token, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	running, cancel := context.WithCancel(ctx)
	p.cancel = cancel
	go p.run(ctx, running)
	return p
}

// take takes in what a call says; it never waits.
func (p *progress) take(n protocol.ToolProgressParams) {
	p.mu.Lock()
	if n.Message != "" {
		if len(p.text) > 0 && p.text[len(p.text)-1] != '\n' {
			p.text = append(p.text, '\n')
		}
		p.text = append(append(p.text, n.Message...), '\n')
	}
	p.text = append(p.text, n.Data...)
	if over := len(p.text) - maxProgress; over > 0 {
		p.left += int64(over)
		p.text = append(p.text[:0], p.text[over:]...)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// end tells what is left and returns when nothing more is told.
func (p *progress) end() {
	p.cancel()
	<-p.ended
}

// run tells until the call has ended. The rest is told too, unless the client has gone
// or does not want it any more.
func (p *progress) run(ctx, running context.Context) {
	defer close(p.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 1; ; {
		select {
		case <-p.wake:
		case <-running.Done():
			if text := p.next(true); text != "" && ctx.Err() == nil {
				p.tell(ctx, n, text)
			}
			return
		}
		if text := p.next(false); text != "" {
			p.tell(ctx, n, text)
			n++
		}
		timer.Reset(progressEvery)
		select {
		case <-timer.C:
		case <-running.Done():
		}
	}
}

func (p *progress) tell(ctx context.Context, n int, text string) {
	_ = p.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: float64(n), Message: text})
}

// next takes the text to be told: whole lines when there are some, or what there is when
// it is the last. A character that is not whole yet waits for its rest.
func (p *progress) next(last bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.text)
	if !last {
		if i := strings.LastIndexByte(string(p.text), '\n'); i >= 0 {
			n = i + 1
		} else {
			n = wholeRunes(p.text)
		}
	}
	text := string(p.text[:n])
	p.text = append(p.text[:0], p.text[n:]...)
	if text == "" && p.left == 0 {
		return ""
	}
	text = strings.ToValidUTF8(strings.TrimRight(text, "\r\n"), "\uFFFD")
	if p.left > 0 {
		text = fmt.Sprintf("[%d bytes left out]\n%s", p.left, text)
		p.left = 0
	}
	return text
}

// wholeRunes is how many bytes of b do not cut a character at the end.
func wholeRunes(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return at
			}
			break
		}
	}
	return len(b)
}
