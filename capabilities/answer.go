package capabilities

import "context"

// Answer is the answer to a request that is being handled, as the host sees it. It belongs to the goroutine
// that handles the request.
type Answer struct{ then func() }

type answerKey struct{}

// WithAnswer gives a request's context its answer, for [AfterAnswer]. The host does that, and calls Then.
func WithAnswer(ctx context.Context) (context.Context, *Answer) {
	a := new(Answer)
	return context.WithValue(ctx, answerKey{}, a), a
}

// Then is what is to be called, once, when the answer has been written down, or will not be; nil when nothing.
func (a *Answer) Then() func() { return a.then }

// AfterAnswer has the host call f when the answer to the request that ctx is of does not refer to the memory
// of the handler's result any more, so that large ones can share it. Where no host does that, f is never
// called. Of several calls the last holds.
func AfterAnswer(ctx context.Context, f func()) {
	if a, ok := ctx.Value(answerKey{}).(*Answer); ok {
		a.then = f
	}
}
