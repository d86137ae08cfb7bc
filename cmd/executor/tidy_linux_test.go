package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tidy removes the control groups of executors that a test has killed and not started again, with what is
// left in them. Where they are stands in their state directories.
func tidy(home string) {
	_ = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "children" {
			return nil
		}
		text, _ := os.ReadFile(path)
		lines := strings.Split(string(text), "\n")
		if len(lines) < 3 || !strings.HasPrefix(filepath.Base(lines[2]), "executor-") {
			return nil
		}
		group := lines[2]
		if f, err := os.OpenFile(filepath.Join(group, "cgroup.kill"), os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString("1")
			_ = f.Close()
		}
		for range 50 { // what was killed takes a moment to go
			below, _ := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
			for _, file := range below {
				_ = os.Remove(filepath.Dir(file))
			}
			if _ = os.Remove(group); !exists(group) {
				break
			}
			<-time.After(20 * time.Millisecond)
		}
		return nil
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
