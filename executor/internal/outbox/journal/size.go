package journal

// Size is how many bytes the segments have on the disk, without files of single records.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	var total int64
	for _, s := range j.segments {
		total += max(s.size, s.end.Load())
	}
	return total
}
