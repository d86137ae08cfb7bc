//go:build !linux && !darwin

package journal

// Boot names the present start of the machine. Here it has no name.
func Boot() string { return "" }
