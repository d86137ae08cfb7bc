//go:build !linux && !darwin && !windows

package atomicfile

import "os"

func readExtra(*os.File) (map[string][]byte, error) { return nil, nil }

func writeExtra(*os.File, map[string][]byte) error { return nil }
