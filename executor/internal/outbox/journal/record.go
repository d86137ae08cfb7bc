package journal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"slices"
)

// A record on disk; all numbers little-endian:
//
//	 0  u32 magic
//	 4  u32 CRC32C of the bytes 8 to 24 and of the payload
//	 8  u32 length of the payload
//	12  u8  kind, u8 flags, u16 0
//	16  u64 seq
//	24  u32 mark: 0, or markOf the checksum; not in the checksum, since it is set later
//	28  u32 0
//	32  payload: u32 length of the head, head, body; then pattern up to a multiple of 8
const (
	recordMagic  = 0x4a584521
	recordHeader = 32
	markOffset   = 24
	align        = 8

	flagOwnFile = 1 // the body is a bodyRef
)

// pattern fills what is not written yet. A record does not begin with it, and neither
// a zeroed page nor a file that was cut looks like it.
const pattern = 0xA5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is a record to be written.
type Entry struct {
	Kind byte
	Head []byte // small: it is handed over at Open
	Body []byte // read when it is asked for
	Sync bool   // Wait returns when it would survive a power loss

	Marked bool // from the start

	seq   uint64 // of a record that is moved
	flags byte
}

// apart is how long a body is that is not copied into a batch, but written from where
// it is.
const apart = 8 << 10

// pieces are the bytes of records, in order.
type pieces struct {
	whole [][]byte
	tail  []byte // what is appended to
	size  int
}

// add adds a record. Its body must not change until it is written.
func (p *pieces) add(e Entry, seq uint64) (length int) {
	start := len(p.tail)
	length = recordHeader + 4 + len(e.Head) + len(e.Body)
	p.tail = slices.Grow(p.tail, recordHeader+4+len(e.Head)+min(len(e.Body), apart)+align)[:start+recordHeader]
	h := p.tail[start:]
	clear(h)
	binary.LittleEndian.PutUint32(h[0:], recordMagic)
	binary.LittleEndian.PutUint32(h[8:], uint32(length-recordHeader))
	h[12], h[13] = e.Kind, e.flags
	binary.LittleEndian.PutUint64(h[16:], seq)
	p.tail = binary.LittleEndian.AppendUint32(p.tail, uint32(len(e.Head)))
	p.tail = append(p.tail, e.Head...)
	sum := crc32.Update(checksum(p.tail[start:]), castagnoli, e.Body)
	binary.LittleEndian.PutUint32(p.tail[start+4:], sum)
	if e.Marked {
		binary.LittleEndian.PutUint32(p.tail[start+markOffset:], markOf(sum))
	}
	if len(e.Body) < apart {
		p.tail = append(p.tail, e.Body...)
	} else {
		p.whole = append(p.whole, p.tail, e.Body)
		p.tail = p.tail[len(p.tail):]
	}
	for ; length%align != 0; length++ {
		p.tail = append(p.tail, pattern)
	}
	p.size += length
	return length
}

// writeTo writes the pieces to f from off on.
func (p *pieces) writeTo(f *os.File, off int64) error {
	for _, piece := range append(p.whole, p.tail) {
		if _, err := f.WriteAt(piece, off); err != nil {
			return err
		}
		off += int64(len(piece))
	}
	return nil
}

// checksum is that of a record, header and payload.
func checksum(r []byte) uint32 {
	return crc32.Update(crc32.Checksum(r[8:markOffset], castagnoli), castagnoli, r[recordHeader:])
}

// markOf is what is written in place to mark a record: no damage looks like it by
// chance, as a single bit would.
func markOf(sum uint32) uint32 { return ^sum }

// found is a record in the bytes of a segment.
type found struct {
	off, end   int // end: where the next one begins
	kind       byte
	flags      byte
	seq        uint64
	sum        uint32
	marked     bool
	badMark    bool // neither marked nor not: it is taken for not
	head, body []byte
}

// parse reads the record at off, if there is a whole one.
func parse(b []byte, off int) (f found, ok bool) {
	if off < 0 || len(b)-off < recordHeader+4 {
		return f, false
	}
	h := b[off:]
	if binary.LittleEndian.Uint32(h) != recordMagic {
		return f, false
	}
	length := int64(binary.LittleEndian.Uint32(h[8:]))
	if length < 4 || length > int64(len(h)-recordHeader) {
		return f, false
	}
	r := h[:recordHeader+length]
	sum := binary.LittleEndian.Uint32(h[4:])
	if checksum(r) != sum {
		return f, false
	}
	headLen := int64(binary.LittleEndian.Uint32(r[recordHeader:]))
	payload := r[recordHeader+4:]
	if headLen > int64(len(payload)) {
		return f, false
	}
	mark := binary.LittleEndian.Uint32(h[markOffset:])
	return found{
		off: off, end: off + padded(len(r)), kind: h[12], flags: h[13],
		seq: binary.LittleEndian.Uint64(h[16:]), sum: sum,
		marked: mark == markOf(sum), badMark: mark != 0 && mark != markOf(sum),
		head: payload[:headLen], body: payload[headLen:],
	}, true
}

func padded(n int) int { return (n + align - 1) &^ (align - 1) }

// gap is a part of a segment that is neither records nor what was never written.
type gap struct {
	off, end int
	last     bool // no record is behind it
}

// scan finds all whole records from off on, and the gaps between and behind them. end
// is where the next record would go if there is no gap.
func scan(b []byte, off int) (records []found, gaps []gap, end int) {
	for off < len(b) {
		if f, ok := parse(b, off); ok {
			records = append(records, f)
			off = f.end
			continue
		}
		next := nextRecord(b, off+align)
		stop := next
		if next < 0 {
			stop = off + len(trimPattern(b[off:]))
		}
		if stop > off {
			gaps = append(gaps, gap{off: off, end: stop, last: next < 0})
		}
		if next < 0 {
			break
		}
		off = next
	}
	return records, gaps, min(off, len(b))
}

// nextRecord finds the first whole record from off on; -1 when there is none.
func nextRecord(b []byte, off int) int {
	magic := binary.LittleEndian.AppendUint32(nil, recordMagic)
	for off < len(b) {
		i := bytes.Index(b[off:], magic)
		if i < 0 {
			return -1
		}
		if off += i; off%align == 0 {
			if _, ok := parse(b, off); ok {
				return off
			}
		}
		off++
	}
	return -1
}

// trimPattern cuts off what was never written.
func trimPattern(b []byte) []byte {
	for n := len(b) - 8; n >= 0 && binary.LittleEndian.Uint64(b[n:]) == pattern*0x0101010101010101; n -= 8 {
		b = b[:n]
	}
	for len(b) > 0 && b[len(b)-1] == pattern {
		b = b[:len(b)-1]
	}
	return b
}
