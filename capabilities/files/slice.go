package files

import (
	"bufio"
	"bytes"
	"context"
	"io"
)

// pieceSize is how much of a slice is read at once: what is looked at then is still in
// the processor's cache.
const pieceSize = 64 << 10

// slice is again for a long window of whole lines that are shown as they are: what is
// read becomes the content, without a copy. It is false when it finds something that it
// is not for, and nothing but time is lost then. At offset so many newlines have been.
func (l *look) slice(ctx context.Context, file io.ReaderAt, buffer *bufio.Reader, offset, newlines int64) (done bool, err error) {
	w, x := l.window, l.index
	last := min(w.first+w.limit-1, x.total)
	width := numberWidth(w.first)
	if w.chars > 0 || x.end(last)-offset < 4*pieceSize || x.unending && last == x.total || width != numberWidth(last) {
		return false, nil
	}
	offset, err = beginning(newSource(ctx, io.NewSectionReader(file, offset, blockSize+1), buffer, false), offset, w.first-1-newlines)
	if err != nil {
		return false, ctx.Err()
	}
	wanted := last - w.first + 1
	size := min(x.end(last)-offset, int64(w.bytes)+pieceSize)
	l.page.room(int(size), int(min(size+wanted*int64(width-1), int64(w.bytes)))+noteBytes)
	memory, found := l.page.content[:size], lines{}
	shown, read := 0, 0 // bytes of memory
	for found.count < wanted && !found.full {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := file.ReadAt(memory[read:min(read+pieceSize, len(memory))], offset+int64(read))
		if err != nil && err != io.EOF {
			return false, err
		}
		if n == 0 { // a line is too long, or the file has changed
			return false, nil
		}
		read += n
		all := bytes.LastIndexByte(memory[shown:read], '\n') + 1
		whole, count := head(memory[shown:shown+all], wanted-found.count, w.bytes-shown-int(found.count)*(width-1), width)
		found.full = len(whole) < all && count < wanted-found.count
		if !plain(whole) || found.full && found.count+count == 0 {
			return false, nil
		}
		l.page.number(w.first+found.count, whole)
		shown += len(whole)
		found.count += count
	}
	l.page.content, l.found = memory[:shown], found
	return true, nil
}

// beginning is where the line begins before which there are still so many newlines.
func beginning(src *source, offset, newlines int64) (int64, error) {
	for newlines > 0 {
		b, err := src.chunk()
		if err != nil {
			return 0, err
		}
		for ; newlines > 0; newlines-- {
			n := bytes.IndexByte(b, '\n') + 1
			if n == 0 {
				break
			}
			offset += int64(n)
			b = b[n:]
		}
		if newlines > 0 {
			offset += int64(len(b))
		}
	}
	return offset, nil
}

// head is as many of whole lines as are wanted and, with their numbers, fit in so many
// bytes.
func head(whole []byte, wanted int64, room, width int) (b []byte, count int64) {
	count = int64(bytes.Count(whole, newline))
	if count <= wanted && len(whole)+int(count)*(width-1) <= room {
		return whole, count
	}
	at := 0
	for count = 0; count < wanted; count++ {
		n := bytes.IndexByte(whole[at:], '\n') + 1
		if n == 0 || at+n+int(count+1)*(width-1) > room {
			break
		}
		at += n
	}
	return whole[:at], count
}
