package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRest(t *testing.T) {
	var r rest
	at := uint64(0)
	for i, step := range []struct {
		bytes uint64
		over  bool
	}{
		{10 << 20, false}, // the start
		{1000, true},      // which is a burst, however small
		{1000, false},
		{100 << 20, false}, // one
		{50 << 20, false},  // it goes on
		{1000, true},
		{1000, false}, // once
		{15 << 20, false},
		{1000, false}, // too little to be worth it
		{2 << 20, false},
		{restBytes, false},
		{restBytes - 1, true}, // together with that
	} {
		at += step.bytes
		assert.Equal(t, step.over, r.over(at), i)
	}
	before := allocated()
	keep := make([]byte, 1<<20)
	assert.GreaterOrEqual(t, allocated()-before, uint64(len(keep)))
}
