package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/agent-executor/executor/protocol"
)

// minCut is the shortest text that is worth to be sent of a longer one.
const minCut = 512

// frameMargin is what a result's envelope and small members need beside its content.
const frameMargin = 16 << 10

// result makes what is sent of what a handler returned. Whatever goes wrong here is
// told in the result itself.
func (c *call) result(ctx context.Context, out protocol.ToolOutput, err error) protocol.ToolResultParams {
	r := protocol.ToolResultParams{
		SessionID:  c.params.SessionID,
		ToolCallID: c.params.ToolCallID,
		IsError:    out.IsError,
		Content:    slices.Clone(out.Content), // the tool may keep it
		Artifacts:  out.Artifacts,
		Mutations:  out.Mutations,
		DurationMS: time.Since(c.started).Milliseconds(),
	}
	if out.Structured != nil {
		raw, jsonErr := marshal(out.Structured)
		switch {
		case string(raw) == "null": // a nil pointer
		case jsonErr != nil:
			err = firstError(err, fmt.Errorf("the tool's structured output cannot be sent: %w", jsonErr))
		case len(raw) == 0 || raw[0] != '{':
			err = firstError(err, fmt.Errorf("the tool's structured output is not an object"))
		default:
			r.Structured = raw
		}
	}
	var e *protocol.Error
	r.Outcome, e = outcome(ctx, err)
	if e != nil {
		r.IsError = true
		r.Error = toolError(e)
		text := e.Message
		if e.Data.Detail != "" {
			text += "\n" + e.Data.Detail
		}
		r.Error.Message = cleanText(r.Error.Message)
		r.Content = append(r.Content, protocol.Content{Type: protocol.ContentText, Text: text})
	}
	for i := range r.Content {
		r.Content[i].Text = cleanText(r.Content[i].Text)
	}
	if r.Content == nil {
		r.Content = []protocol.Content{}
	}
	c.fit(&r)
	return r
}

// marshal is json.Marshal of what a tool made, whose own methods may panic.
func marshal(v any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // it makes six bytes of each angle bracket
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func firstError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// cleanText makes text that every store takes: valid UTF-8 without U+0000.
func cleanText(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\u2400") // its picture: seen, and harmless
	}
	return s
}

// fit makes the result small enough to be sent before it is recorded: long text is
// cut to its head and tail and spilled to a file, and what cannot be cut is left out
// and said.
func (c *call) fit(r *protocol.ToolResultParams) {
	limit := c.s.e.frameLimit()
	limit -= min(frameMargin, limit/4)
	inline := min(c.s.e.opts.InlineResultBytes, limit/2) // as JSON it grows
	text := 0
	for i := range r.Content {
		text += len(r.Content[i].Text)
	}
	uncut := r.Content
	// A tool that cuts its own output adds a line about it; that is not cut again.
	if text > inline+inline/8 {
		c.spill(r, inline)
	}
	if size(r) <= limit {
		return
	}
	whole := *r // names where the text was spilled to
	whole.Content = slices.Clone(r.Content)
	if len(r.Structured) > 0 {
		r.Structured = nil
		r.Content = append(r.Content, protocol.Content{Type: protocol.ContentText,
			Text: "(the structured form of this result was too large to be sent)"})
	}
	for i := range r.Content {
		if n := len(r.Content[i].Data); n > 0 && size(r) > limit {
			r.Content[i] = protocol.Content{Type: protocol.ContentText,
				Text: fmt.Sprintf("(%s of %d bytes was too large to be sent)", r.Content[i].Type, n)}
		}
	}
	for cut := inline / 4; size(r) > limit && cut >= minCut && text > cut; cut /= 4 { // it grows as JSON more than most does
		r.Content = slices.Clone(uncut)
		c.spill(r, cut)
	}
	if size(r) > limit {
		*r = c.s.e.tooLarge(whole, 0)
	}
	if size(r) > limit {
		r.Mutations = nil
	}
}

// size is at least what the result is on the wire.
func size(r *protocol.ToolResultParams) int {
	n := len(r.Structured) + 200*(len(r.Artifacts)+len(r.Mutations))
	for i := range r.Content {
		n += wireLen(r.Content[i].Text) + (len(r.Content[i].Data)+2)/3*4 + 200
	}
	for _, m := range r.Mutations {
		n += wireLen(m.Path) + wireLen(m.From)
	}
	return n
}

// wireLen is the length of a string as JSON.
func wireLen(s string) int {
	n := len(s) + 2
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"' || b == '\\' || b == '\n' || b == '\t' || b == '\r':
			n++
		case b < 0x20:
			n += 5
		case b == 0xE2: // U+2028 and U+2029 are escaped
			n += 3
		}
	}
	return n
}

// spill cuts the text to its head and tail; the end always survives. The whole text
// goes to a file, unless the tool has put it into one.
func (c *call) spill(r *protocol.ToolResultParams, inline int) {
	var texts []string
	var others []protocol.Content
	for _, b := range r.Content {
		if b.Text == "" {
			others = append(others, b)
		} else {
			texts = append(texts, b.Text)
		}
	}
	text := strings.Join(texts, "\n")
	if c.spilled == "" {
		c.spilled = spilledTo(*r)
	}
	if c.spilled == "" {
		var err error
		if c.spilled, err = c.spillText(text); err != nil {
			c.s.log.Warn("result could not be spilled", zap.String("call", c.params.ToolCallID), zap.Error(err))
		}
	}
	where := spilledHere + c.spilled
	if c.spilled == "" {
		where = "it could not be kept"
	}
	r.Content = append([]protocol.Content{{Type: protocol.ContentText, Text: headTail(text, inline, where)}}, others...)
}

func (c *call) spillText(text string) (display string, err error) {
	f, display, err := c.caps.Spill()
	if err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return "", err
	}
	if _, err := io.WriteString(f, text); err != nil {
		return "", err
	}
	return display, nil
}

// What stands between head and tail of a text that was cut and spilled.
const (
	spilledHere  = "it is in "
	spillMark    = "are missing here; " + spilledHere
	spillMarkEnd = " …]\n"
)

// headTail keeps both ends of a text within limit bytes, and says what is missing.
func headTail(text string, limit int, where string) string {
	head, tail := ends(text, limit)
	return fmt.Sprintf("%s\n[… %d bytes of %d are missing here; %s"+spillMarkEnd+"%s",
		head, len(text)-len(head)-len(tail), len(text), where, tail)
}

// ends are both ends of a text within limit bytes, cut between characters.
func ends(text string, limit int) (head, tail string) {
	from, to := limit/2, len(text)-limit/2
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return text[:from], text[to:]
}

// frameLimit is the largest frame the brain takes.
func (e *Executor) frameLimit() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.maxFrame
}
