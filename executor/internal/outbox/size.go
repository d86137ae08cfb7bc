package outbox

// Size is how many bytes the journal has on the disk; 0 without one.
func (b *Box) Size() int64 {
	if b.journal == nil {
		return 0
	}
	return b.journal.Size()
}
