package files

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agent-executor/executor/protocol"
)

// The member glob is read alike by grep, list_files and stat.
func TestGlobMember(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a.go", "src/a.go", "src/sub/a.go", "src/src/a.go", "other/a.go", "x[1]/a.go"} {
		b.put(name, "needle\n")
	}
	found := func(out protocol.ToolOutput) (all []string) {
		switch o := out.Structured.(type) {
		case grepOutput:
			for _, m := range o.Matches {
				all = append(all, m.Path)
			}
		case listOutput:
			for _, e := range o.Entries {
				all = append(all, e.Path)
			}
		case statOutput:
			for _, e := range o.Entries {
				all = append(all, e.Path)
			}
		}
		return all
	}
	everywhere := []string{"a.go", "src/a.go", "src/sub/a.go", "src/src/a.go", "other/a.go", "x[1]/a.go"}
	for _, c := range []struct {
		path, glob string
		want       []string
		hint       string
	}{
		{"", "/a.go", []string{"a.go"}, ""},
		{"", "/src/*.go", []string{"src/a.go"}, ""},
		{"src", "/*.go", []string{"src/a.go"}, ""},
		{"", b.path("a.go"), []string{"a.go"}, ""},
		{"", b.path() + "/*.go", []string{"a.go"}, ""},
		{"", b.path() + "/**/*.go", everywhere, ""},
		{"", b.path("src") + "/*.go", []string{"src/a.go"}, ""},
		{"src", b.path("src") + "/**/*.go", []string{"src/a.go", "src/sub/a.go", "src/src/a.go"}, ""},
		{"", b.path("x[1]/a.go"), nil, ""}, // a set of characters
		{"", b.path() + `/x\[1\]/a.go`, []string{"x[1]/a.go"}, ""},
		{"", "src//./a.go", []string{"src/a.go"}, ""},
		{"", "./src/a.go", []string{"src/a.go"}, ""},
		{"", "/etc/*.conf", nil, "[glob begins at path: /etc/*.conf means etc/*.conf]"},
		{"other", "/etc/*.conf", nil, "means other/etc/*.conf]"},
		{"other", "other/*.go", nil, "[glob is relative to path: without other/ at its front it may match]"},
		{"src", "src/*.go", []string{"src/src/a.go"}, ""},
	} {
		for tool, in := range map[string]obj{"grep": {"pattern": "needle"}, "list_files": {}, "stat": {}} {
			in["path"], in["glob"] = c.path, c.glob
			out := b.ok(tool, in)
			assert.ElementsMatch(t, c.want, found(out), "%s %v", tool, in)
			assert.Contains(t, out.Content[0].Text, c.hint, "%s %v", tool, in)
		}
	}
	assert.ElementsMatch(t, []string{"src/a.go", "src/sub/a.go", "src/src/a.go", "other/a.go", "x[1]/a.go"},
		found(b.ok("grep", obj{"pattern": "needle", "glob": "!" + b.path("a.go")})))
	assert.Equal(t, []string{"a.go"}, found(b.ok("grep", obj{"pattern": "needle", "glob": "*.py", "path": "a.go"})), "a file that is named is meant")
	assert.Equal(t, []string{"src"}, found(b.ok("list_files", obj{"glob": "/src/"})))
	assert.Equal(t, []string{"src", "src/src"}, found(b.ok("list_files", obj{"glob": "src/", "recursive": true})))
	// ** is all at any depth for each of them.
	dirs := []string{"other", "src", "src/src", "src/sub", "x[1]"}
	all := append(dirs[:len(dirs):len(dirs)], everywhere...)
	for glob, want := range map[string][]string{
		"**": all, "./**": all, "/**": all, "**/**": all, "{**}": all, "{none,**}": all, b.path() + "/**": all,
		"**/": dirs, "{**}/": dirs, "/**/": dirs, "**/*/": dirs, "{**/,none}": dirs,
		"**.go": {"a.go"}, "{none,**}.go": {"a.go"}, "s{**,x}": {"src"}, `[*]**`: nil, `\**`: nil,
	} {
		for _, tool := range []string{"list_files", "stat"} {
			assert.ElementsMatch(t, want, found(b.ok(tool, obj{"glob": glob})), "%s %s", tool, glob)
		}
	}
	assert.ElementsMatch(t, []string{"src/a.go", "src/sub", "src/sub/a.go", "src/src", "src/src/a.go"}, found(b.ok("stat", obj{"path": "src", "glob": "**"})))
	assert.ElementsMatch(t, []string{"src/sub", "src/src"}, found(b.ok("stat", obj{"path": "src", "glob": "**/"})))
	for _, glob := range []string{"../*", "src/../*.go", "..", "{a,../b}", b.path() + "/../*", "src/.."} {
		for _, tool := range []string{"grep", "list_files", "stat"} {
			in := obj{"glob": glob}
			if tool == "grep" {
				in["pattern"] = "x"
			}
			assert.Contains(t, b.refused("invalid_params", tool, in), "glob: ", glob)
		}
	}
	assert.Contains(t, b.refused("invalid_params", "grep", obj{"pattern": "x", "glob": "!../x"}), ".. leads out of the directory")
	assert.Contains(t, b.refused("invalid_params", "list_files", obj{"path": "src", "glob": b.path("other") + "/*"}), "is not below src; give the directory as path")
}
