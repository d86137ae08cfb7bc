package spawn

import "time"

// Moment, Left and Part find nothing: Windows keeps no trees.
type Moment uint64

// Now is this moment.
func Now() Moment { return 0 }

// Left are processes of a tree that were alive at some time.
type Left map[int]uint64

// Leave says which processes of the tree are alive: none is known.
func (p *Process) Leave() (Left, []Member) { return nil, nil }

// Part is the descendants that were started since a moment: none is known.
type Part struct{}

// Since is the part of the tree that was started since a moment.
func (p *Process) Since(Moment, Left) *Part { return &Part{} }

// Members lists what is alive of the part.
func (x *Part) Members() []Member { return nil }

// Interrupt does nothing.
func (x *Part) Interrupt() {}

// Terminate does nothing.
func (x *Part) Terminate(time.Duration) []Survivor { return nil }
