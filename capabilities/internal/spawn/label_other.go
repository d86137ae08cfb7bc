//go:build !linux

package spawn

// There are no labels here.

func withLabel(_ uint64, start func()) (labelled bool) {
	start()
	return false
}

func labelsWork() bool { return false }
