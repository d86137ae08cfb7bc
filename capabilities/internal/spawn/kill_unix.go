//go:build unix

package spawn

func kill(t *tree) []Survivor { return t.kill() }
