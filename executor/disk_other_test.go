//go:build !linux

package executor

import "testing"

func smallDisk(t *testing.T) string {
	t.Skip("no small disk can be made here")
	return ""
}
