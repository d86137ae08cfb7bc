//go:build !linux

package search

import "os"

// openTop opens the directory of a handle once more. The caller closes it.
func openTop(root *os.Root) (dir, error) {
	again, err := root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	return rootDir{again}, nil
}
