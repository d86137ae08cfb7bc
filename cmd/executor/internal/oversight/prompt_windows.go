package oversight

import "os"

// newLines: a console cannot be read here without holding on to it.
func newLines(*os.File) lines { return nil }
