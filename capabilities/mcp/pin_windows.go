package mcp

import "os"

func openProgram(path string) (*os.File, error) { return os.Open(path) }

// changed is nothing that is known here.
func changed(os.FileInfo) int64 { return 0 }
