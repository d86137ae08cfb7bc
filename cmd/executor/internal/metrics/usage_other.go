//go:build !linux

package metrics

import "time"

// processUsage is not known here.
func processUsage() (cpu time.Duration, rss int64, files int) { return 0, 0, 0 }
