package host

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRest(t *testing.T) {
	var r rest
	at, collections := uint64(0), uint64(2)
	for i, step := range []struct {
		bytes   uint64
		collect bool
		want    restAction
	}{
		{10 << 20, false, nothing}, // the start
		{1000, true, freeMemory},   // which is a burst, however small
		{1000, false, forgetCode},
		{1000, false, nothing},
		{1000, true, forgetCode}, // the runtime collects now and then
		{1000, false, nothing},
		{100 << 20, true, nothing}, // a burst
		{50 << 20, true, nothing},  // it goes on
		{1000, true, freeMemory},
		{2 << 20, false, nothing}, // not yet
		{1000, false, forgetCode},
		{1000, false, nothing}, // once
		{13 << 20, false, nothing},
		{1000, false, nothing}, // too little to be worth it
		{restBytes, false, nothing},
		{restBytes - 1, true, freeMemory}, // together with that
		{1000, false, forgetCode},
	} {
		at += step.bytes
		if step.collect {
			collections++
		}
		assert.Equal(t, step.want, r.next(at, collections), i)
	}
	before, times := used()
	keep := make([]byte, 1<<20)
	runtime.GC()
	after, later := used()
	assert.GreaterOrEqual(t, after-before, uint64(len(keep)))
	assert.Greater(t, later, times)
}
