//go:build !unix

package npm

// hold does nothing here: two processes may install at once, and the second fails.
func hold(string) (release func(), err error) { return func() {}, nil }
