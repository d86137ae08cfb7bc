package files

import (
	"container/heap"
	"slices"
)

// smallest keeps the first most of many names in their order.
type smallest struct {
	most  int
	names nameHeap
}

// nameHeap has the last name on top.
type nameHeap []string

func (h nameHeap) Len() int           { return len(h) }
func (h nameHeap) Less(i, j int) bool { return h[i] > h[j] }
func (h nameHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nameHeap) Push(x any)        { *h = append(*h, x.(string)) }

func (h *nameHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (s *smallest) add(name string) {
	switch {
	case len(s.names) < s.most:
		heap.Push(&s.names, name)
	case s.most > 0 && name < s.names[0]:
		s.names[0] = name
		heap.Fix(&s.names, 0)
	}
}

func (s *smallest) sorted() []string {
	slices.Sort(s.names)
	return s.names
}
