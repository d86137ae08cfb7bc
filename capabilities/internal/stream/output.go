package stream

// Output is one stream of a command: cleaned, bounded, and spilled. It is not safe for concurrent use;
// several outputs may share a spill.
type Output struct {
	raw   int64
	clean *Cleaner
	kept  *HeadTail
	spill *Spill
}

// NewOutput keeps at least limit bytes of text for View. spill may be nil.
func NewOutput(limit int, spill *Spill) *Output {
	kept := NewHeadTail(limit)
	return &Output{clean: NewCleaner(kept), kept: kept, spill: spill}
}

// Write takes the next raw bytes. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.raw += int64(len(p))
	if o.spill != nil {
		_, _ = o.spill.Write(p)
	}
	return o.clean.Write(p)
}

// Close ends the stream: what is unfinished is passed on.
func (o *Output) Close() error { return o.clean.Close() }

// View shows at most limit bytes of the text.
func (o *Output) View(limit int) View { return o.kept.View(limit) }

// Raw is the number of bytes that came.
func (o *Output) Raw() int64 { return o.raw }

// Len is the number of bytes of text they became.
func (o *Output) Len() int64 { return o.kept.Total() }

// Damage counts what the text does not show as it was: bytes that were not UTF-8, replaced by U+FFFD,
// and NUL bytes, removed.
func (o *Output) Damage() (invalid, nuls int64) { return o.clean.Invalid, o.clean.NULs }
