package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Against a model that keeps everything: whatever is written and read, a ring shows the newest bytes
// at their cursors, and says what it does not have any more.
func TestRingAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3*minRing).Draw(t, "limit")
		r := NewRing(limit)
		var all []byte
		closed := false
		seed := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 2*limit)).Draw(t, "n")
				p := make([]byte, n)
				for i := range p {
					seed = seed*31 + 7
					p[i] = seed
				}
				m, err := r.Write(p)
				require.NoError(t, err)
				require.Equal(t, n, m)
				if !closed {
					all = append(all, p...)
				}
				clear(p) // it is not kept
			},
			"read": func(t *rapid.T) {
				cursor := rapid.Int64Range(0, int64(len(all))).Draw(t, "cursor")
				most := rapid.IntRange(0, 2*limit).Draw(t, "most")
				c, err := r.ReadAt(cursor, most)
				require.NoError(t, err)
				earliest := int64(max(0, len(all)-limit))
				from := max(cursor, earliest)
				next := min(from+int64(most), int64(len(all)))
				require.Equal(t, earliest, c.Earliest)
				require.Equal(t, from, c.From)
				require.Equal(t, next, c.Next)
				require.Equal(t, cursor < earliest, c.Gap)
				require.True(t, bytes.Equal(all[from:next], c.Data))
				require.Equal(t, next < int64(len(all)), c.More)
				require.Equal(t, closed && !c.More, c.EOF)
			},
			"beyond": func(t *rapid.T) {
				_, err := r.ReadAt(int64(len(all))+1, 1)
				var beyond *RangeError
				require.ErrorAs(t, err, &beyond)
				require.Equal(t, int64(len(all)), beyond.End)
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "die") == 0 {
					r.CloseWrite()
					closed = true
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, int64(len(all)), r.End())
				require.LessOrEqual(t, cap(r.buf), max(limit, 1))
			},
		})
	})
}

// A blocking ring loses nothing, whatever the sizes of what is written and read.
func TestRingBlocksAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRing(rapid.IntRange(1, 500).Draw(t, "limit"))
		r.Block()
		pieces := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 900)).Draw(t, "pieces")
		reads := rapid.SliceOfN(rapid.IntRange(1, 700), 1, 20).Draw(t, "reads")
		go func() {
			for _, p := range pieces {
				_, _ = r.Write(p)
			}
			r.CloseWrite()
		}()
		var got []byte
		for i, cursor := 0, int64(0); ; i++ {
			r.Pass(cursor)
			require.NoError(t, r.Wait(context.Background(), cursor, nil))
			c, err := r.ReadAt(cursor, reads[i%len(reads)])
			require.NoError(t, err)
			require.False(t, c.Gap)
			got, cursor = append(got, c.Data...), c.Next
			if c.EOF {
				break
			}
		}
		require.True(t, bytes.Equal(bytes.Join(pieces, nil), got))
	})
}

func TestRingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRing(100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, r.Wait(ctx, 0, nil), context.DeadlineExceeded)

		for _, change := range []func(){
			func() { _, _ = io.WriteString(r, "x") },
			r.CloseWrite,
		} {
			woken := make(chan error, 1)
			cursor := r.End()
			go func() { woken <- r.Wait(t.Context(), cursor, nil) }()
			synctest.Wait()
			assert.Empty(t, woken)
			change()
			assert.NoError(t, <-woken)
		}
		assert.NoError(t, r.Wait(t.Context(), 1, nil), "the end is not waited for")

		also := make(chan struct{})
		close(also)
		assert.NoError(t, NewRing(1).Wait(t.Context(), 0, also))
	})
}

// A writer in a blocking ring waits for the byte it would drop to be passed, and for nothing else.
func TestRingBlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRing(4)
		r.Block()
		written := make(chan struct{})
		go func() {
			_, _ = io.WriteString(r, "abcdefghij")
			close(written)
		}()
		synctest.Wait()
		c, err := r.ReadAt(0, 100)
		require.NoError(t, err)
		assert.Equal(t, "abcd", string(c.Data), "a read alone passes nothing")
		assert.EqualValues(t, 4, r.End())
		r.Pass(3)
		r.Pass(1)   // no way back
		r.Pass(100) // nothing that has not come
		synctest.Wait()
		assert.EqualValues(t, 7, r.End())

		r.Unblock(3)
		<-written
		c, err = r.ReadAt(3, 100)
		require.NoError(t, err)
		assert.Equal(t, "defghij", string(c.Data), "what was on its way has room")
		assert.False(t, c.Gap)
		_, _ = io.WriteString(r, "kl")
		c, err = r.ReadAt(3, 100)
		require.NoError(t, err)
		assert.Equal(t, Chunk{Data: []byte("defghij"), From: 3, Next: 10, Earliest: 3, More: true}, c, "what is there stays")
		c, err = r.ReadAt(10, 100)
		require.NoError(t, err)
		assert.Equal(t, Chunk{From: 12, Next: 12, Earliest: 3, Gap: true}, c)
		r.Pass(10)
		_, _ = io.WriteString(r, "m") // although there would be room: there is one gap, at the end
		assert.EqualValues(t, 13, r.End())
		require.NoError(t, r.Wait(t.Context(), 12, nil))
		r.CloseWrite()
		c, err = r.ReadAt(12, 100)
		require.NoError(t, err)
		assert.Equal(t, Chunk{From: 13, Next: 13, Earliest: 3, Gap: true, EOF: true}, c)
		c, err = r.ReadAt(13, 100)
		require.NoError(t, err)
		assert.Equal(t, Chunk{From: 13, Next: 13, Earliest: 3, EOF: true}, c)
		_, err = r.ReadAt(14, 100)
		require.Equal(t, &RangeError{14, 13}, err)

		ring := NewRing(1)
		ring.Block()
		_, _ = io.WriteString(ring, "a")
		ended := make(chan struct{})
		go func() {
			_, _ = io.WriteString(ring, "b")
			close(ended)
		}()
		synctest.Wait()
		ring.CloseWrite()
		<-ended
		assert.EqualValues(t, 1, ring.End())
	})
}

// Nothing is left of a ring that is made at its end.
func TestRingEnded(t *testing.T) {
	r := NewEnded(7)
	assert.True(t, r.Closed())
	assert.EqualValues(t, 7, r.End())
	c, err := r.ReadAt(3, 100)
	require.NoError(t, err)
	assert.Equal(t, Chunk{From: 7, Next: 7, Earliest: 7, Gap: true, EOF: true}, c)
	c, err = r.ReadAt(7, 100)
	require.NoError(t, err)
	assert.Equal(t, Chunk{From: 7, Next: 7, Earliest: 7, EOF: true}, c)
	c, err = NewLost(7).ReadAt(7, 100)
	require.NoError(t, err)
	assert.Equal(t, Chunk{From: 7, Next: 7, Earliest: 7, Gap: true, EOF: true}, c)
	assert.NoError(t, r.Wait(t.Context(), 7, nil))
}

func TestRingMemory(t *testing.T) {
	r := NewRing(1 << 20)
	assert.Nil(t, r.buf, "nothing before the first byte")
	_, _ = io.WriteString(r, "x")
	assert.Len(t, r.buf, minRing)
	_, _ = r.Write(make([]byte, 5<<20))
	assert.Len(t, r.buf, 1<<20)
	assert.EqualValues(t, 5<<20+1, r.End())

	r = NewRing(1 << 20)
	_, _ = r.Write(make([]byte, minRing+1))
	assert.Len(t, r.buf, 2*minRing)
	r.CloseWrite()
	_, err := r.Write([]byte("more"))
	assert.NoError(t, err)
	assert.EqualValues(t, minRing+1, r.End())
	quiet := NewRing(10)
	quiet.CloseWrite()
	c, err := quiet.ReadAt(0, 1)
	assert.NoError(t, err)
	assert.True(t, c.EOF)
	assert.False(t, errors.Is(err, io.EOF))
}

func BenchmarkRing(b *testing.B) {
	r := NewRing(1 << 20)
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.Write(p)
	}
}

func TestReadInto(t *testing.T) {
	r := NewRing(8)
	_, _ = r.Write([]byte("0123456789"))
	buf := []byte("xxxxxx")
	c, err := r.ReadInto(0, buf[:4])
	require.NoError(t, err)
	require.Equal(t, Chunk{Data: []byte("2345"), From: 2, Next: 6, Earliest: 2, Gap: true, More: true}, c)
	require.Equal(t, "2345xx", string(buf), "it is in the buffer")
	c, err = r.ReadInto(6, buf)
	require.NoError(t, err)
	require.Equal(t, Chunk{Data: []byte("6789"), From: 6, Next: 10, Earliest: 2}, c)
	c, err = r.ReadInto(10, buf)
	require.NoError(t, err)
	require.Empty(t, c.Data)
	_, err = r.ReadInto(11, buf)
	require.Error(t, err)
}
