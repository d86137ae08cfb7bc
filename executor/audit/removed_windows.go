package audit

import "os"

// removed says that an open file has no name any more: here it cannot be removed.
func removed(*os.File) bool { return false }
