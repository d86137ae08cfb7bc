package files

import "github.com/agent-executor/executor/capabilities"

// What each tool touches, see capabilities.Effecter. Which of them only read is said by their annotations.

func touches(paths ...string) capabilities.Effect {
	list := paths[:0]
	for _, p := range paths {
		if p != "" {
			list = append(list, p)
		}
	}
	return capabilities.Effect{Paths: list}
}

// tree is for what looks at all that is in a directory; "" is the workspace.
func tree(path string) capabilities.Effect {
	if path == "" {
		path = "."
	}
	return capabilities.Effect{Paths: []string{path}, Tree: true}
}

// Effect implements capabilities.Effecter.
func (in readInput) Effect() capabilities.Effect { return touches(in.Path) }

// Effect implements capabilities.Effecter.
func (in writeInput) Effect() capabilities.Effect { return touches(in.Path) }

// Effect implements capabilities.Effecter.
func (in editInput) Effect() capabilities.Effect { return touches(in.Path) }

// Effect implements capabilities.Effecter.
func (in multiEditInput) Effect() capabilities.Effect {
	var paths []string
	for _, e := range in.Edits {
		paths = append(paths, e.Path)
	}
	return touches(paths...)
}

// Effect implements capabilities.Effecter.
func (in diffInput) Effect() capabilities.Effect { return touches(in.PathA, in.PathB) }

// Effect implements capabilities.Effecter.
func (in mkdirInput) Effect() capabilities.Effect { return touches(in.Path) }

// Effect implements capabilities.Effecter.
func (in setExecutableInput) Effect() capabilities.Effect { return touches(in.Path) }

// Effect implements capabilities.Effecter. A directory is moved with all that is in it.
func (in moveInput) Effect() capabilities.Effect {
	return capabilities.Effect{Paths: []string{in.From, in.To}, Tree: true}
}

// Effect implements capabilities.Effecter.
func (in copyInput) Effect() capabilities.Effect {
	return capabilities.Effect{Paths: []string{in.From, in.To}, Tree: in.Recursive}
}

// Effect implements capabilities.Effecter.
func (in deleteInput) Effect() capabilities.Effect {
	return capabilities.Effect{Paths: []string{in.Path}, Tree: in.Recursive}
}

// Effect implements capabilities.Effecter.
func (in listInput) Effect() capabilities.Effect { return tree(in.Path) }

// Effect implements capabilities.Effecter.
func (in globInput) Effect() capabilities.Effect { return tree(in.Path) }

// Effect implements capabilities.Effecter.
func (in grepInput) Effect() capabilities.Effect { return tree(in.Path) }

// Effect implements capabilities.Effecter.
func (in statInput) Effect() capabilities.Effect {
	if in.Glob != "" {
		return tree(in.Path)
	}
	return touches(in.Path)
}
