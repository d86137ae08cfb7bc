package files

import (
	"io/fs"
	"time"
)

const nonblock = 0

// identity: a file info has none that could be a key here.
func identity(fs.FileInfo) string { return "" }

// inodeKey: writers that use different names of one file are not kept apart here.
func inodeKey(fs.FileInfo) string { return "" }

// device: what the walk enters here are no mount points, which are links.
func device(fs.FileInfo) uint64 { return 0 }

func (t *target) chmodName(_ fs.FileMode, opening error) error { return opening }

func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }
