// Package journal is a log of records in files, for what has to survive a kill, a
// power loss and a damaged disk. It knows nothing of what is in a record.
//
//	j, err := journal.Open(dir, func(r journal.Record) { … }) // what is there, in no order but that of Seq
//	s := j.Stage(journal.Entry{…})                            // its place in the order; never waits
//	err = s.Wait()                                            // written, and synced when the entry asks for it
//	j.Mark(s.Ref())                                           // a flag in place: needs no disk space
//	j.Drop(s.Ref())                                           // not needed any more
//
// The log is cut into segments. A segment is made at its full size, filled with a
// pattern that is no record: so a write changes no metadata and is synced fast, there
// is room for what is written on a full disk, and whatever is neither record nor
// pattern is damage and can be told from an end. A record has a checksum and begins at
// a multiple of eight, so that those behind a damaged place are found again. A body of
// more than BodyLimit has a file of its own.
//
// Whoever waits writes: the first one for all that are staged by then. Who comes first
// to the sync syncs for all that are written. There is no goroutine. What is large goes
// to a segment that grows: to fill one first and then write it would be twice the work.
//
//	journal.go  Journal: stage, wait, read, mark, drop
//	write.go    where a batch goes; new segments
//	segment.go  one file of records
//	manifest.go which segments there are
//	record.go   a record as bytes; finding records in bytes that may be damaged
//	recover.go  Open: what is there, what was lost
//	body.go     bodies in files of their own
//	lag.go      records that are relied upon before the disk has them
//	compact.go  which segment is worth to be emptied, and emptying it
package journal
