package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkCommit writes records that are synced, with 1 and 16 writers, beside a loop
// that appends as many bytes to a file and syncs it, each writer for itself. The runs
// of the two alternate; the medians of the ratios are printed. Goal: ≥ 0.8.
func BenchmarkCommit(b *testing.B) {
	for range b.N {
		b.ReportMetric(0, "ns/op")
		for _, load := range []struct {
			name          string
			size, writers int
			total         int
		}{{"1KB-1x", 1 << 10, 1, 300}, {"1KB-16x", 1 << 10, 16, 1600}, {"100KB-1x", 100 << 10, 1, 200}, {"100KB-16x", 100 << 10, 16, 480}} {
			var ratios, rates []float64
			for range 7 {
				raw := commits(load.writers, load.total, rawAppend(b, load.size))
				ours := commits(load.writers, load.total, journalWrite(b, load.size))
				ratios, rates = append(ratios, ours/raw), append(rates, ours)
			}
			b.ReportMetric(median(ratios), load.name+"-ratio")
			b.ReportMetric(median(rates), load.name+"-commits/s")
		}
	}
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// commits is the rate at which writers do something that ends with a sync.
func commits(writers, total int, commit func()) float64 {
	began := time.Now()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range total / writers {
				commit()
			}
		})
	}
	all.Wait()
	return float64(total) / time.Since(began).Seconds()
}

// rawAppend is the least that could be done.
func rawAppend(b *testing.B, size int) func() {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, f.Close()) })
	data := bytes.Repeat([]byte("x"), size)
	return func() {
		_, err := f.Write(data)
		if err == nil {
			err = syncData(f)
		}
		if err != nil {
			panic(fmt.Sprint("raw append: ", err))
		}
	}
}

func journalWrite(b *testing.B, size int) func() {
	j, _, err := Open(b.TempDir(), "boot", func(Record) {})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, j.Close()) })
	e := Entry{Kind: 1, Head: []byte("head"), Body: bytes.Repeat([]byte("x"), size), Sync: true}
	return func() {
		s := j.Stage(e)
		if err := s.Wait(); err != nil {
			panic(fmt.Sprint("journal: ", err))
		}
		s.Release()
	}
}
