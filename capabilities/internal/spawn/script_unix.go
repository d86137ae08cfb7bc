//go:build unix

package spawn

import "os"

// tempScript holds a script in a file that has no name any more.
func tempScript(script string) (*os.File, error) {
	f, err := os.CreateTemp("", "script")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	return fill(f, script)
}

func fill(f *os.File, script string) (*os.File, error) {
	if _, err := f.WriteString(script); err != nil {
		_ = f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
