package files

import (
	"bytes"
	"path"
	"strings"
)

// languages by the end of a file's name.
var languages = map[string]string{
	".bash": "shell", ".bat": "batch", ".c": "c", ".cc": "c++", ".clj": "clojure", ".cmake": "cmake", ".conf": "configuration",
	".cpp": "c++", ".cs": "c#", ".css": "css", ".csv": "csv", ".cxx": "c++", ".dart": "dart", ".el": "emacs lisp", ".erl": "erlang",
	".ex": "elixir", ".exs": "elixir", ".fs": "f#", ".go": "go", ".gradle": "gradle", ".graphql": "graphql", ".groovy": "groovy",
	".h": "c", ".hcl": "hcl", ".hpp": "c++", ".hs": "haskell", ".htm": "html", ".html": "html", ".ini": "ini", ".ipynb": "jupyter",
	".java": "java", ".jl": "julia", ".js": "javascript", ".json": "json", ".jsx": "javascript", ".kt": "kotlin", ".kts": "kotlin",
	".less": "less", ".lisp": "lisp", ".lua": "lua", ".m": "objective-c", ".md": "markdown", ".mjs": "javascript", ".mk": "make",
	".ml": "ocaml", ".mod": "go module", ".nim": "nim", ".nix": "nix", ".patch": "diff", ".diff": "diff", ".php": "php", ".pl": "perl",
	".pm": "perl", ".proto": "protobuf", ".ps1": "powershell", ".py": "python", ".pyi": "python", ".r": "r", ".rb": "ruby",
	".rs": "rust", ".rst": "restructuredtext", ".sass": "sass", ".scala": "scala", ".scss": "scss", ".sh": "shell", ".sql": "sql",
	".svelte": "svelte", ".svg": "svg", ".swift": "swift", ".tcl": "tcl", ".tex": "tex", ".tf": "terraform", ".toml": "toml",
	".ts": "typescript", ".tsx": "typescript", ".txt": "text", ".vim": "vim", ".vue": "vue", ".xml": "xml", ".yaml": "yaml",
	".yml": "yaml", ".zig": "zig", ".zsh": "shell",
}

// wholeNames have no end that tells.
var wholeNames = map[string]string{
	"dockerfile": "dockerfile", "makefile": "make", "gnumakefile": "make", "cmakelists.txt": "cmake", "gemfile": "ruby",
	"rakefile": "ruby", "jenkinsfile": "groovy", ".bashrc": "shell", ".profile": "shell", ".zshrc": "shell", ".gitignore": "gitignore",
}

// language names what a text is written in by its name or, for a program, by its
// first line; "" when neither tells.
func language(name string, head []byte) string {
	name = strings.ToLower(name)
	if l := wholeNames[name]; l != "" {
		return l
	}
	if l := languages[path.Ext(name)]; l != "" {
		return l
	}
	line, _, _ := bytes.Cut(head, newline)
	if !bytes.HasPrefix(line, []byte("#!")) {
		return ""
	}
	fields := strings.Fields(string(line[2:]))
	if len(fields) == 0 {
		return ""
	}
	program := path.Base(fields[0])
	if program == "env" {
		program = ""
		for _, f := range fields[1:] {
			if !strings.HasPrefix(f, "-") && !strings.Contains(f, "=") {
				program = f
				break
			}
		}
	}
	switch program = strings.TrimRight(program, "0123456789."); program {
	case "sh", "bash", "dash", "zsh", "ksh":
		return "shell"
	case "node", "deno", "bun":
		return "javascript"
	}
	return program
}
