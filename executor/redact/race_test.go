//go:build race

package redact

// raceEnabled says that the test runs many times slower.
const raceEnabled = true
