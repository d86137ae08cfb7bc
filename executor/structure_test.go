package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/agent-executor/executor/"

// pkg is what go list says of a package of this module, under its path in it.
type pkg struct {
	path    string
	Imports []string
	Deps    []string
}

func listed(t *testing.T) []pkg {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...").Output()
	require.NoError(t, err)
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			pkg
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		p.path = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p.pkg)
	}
}

func below(path string, roots ...string) bool {
	for _, r := range roots {
		if path == r || strings.HasPrefix(path, r+"/") {
			return true
		}
	}
	return false
}

// area is the part of the module a package belongs to: "capabilities/files" is one,
// and what its packages share, capabilities itself and capabilities/internal, another.
func area(path string) string {
	first, rest, _ := strings.Cut(path, "/")
	second, _, _ := strings.Cut(rest, "/")
	switch {
	case below(path, "protocol/rpc"):
		return "rpc"
	case below(path, "protocol/brain"):
		return "brain"
	case first == "capabilities" && below(second, "standard"):
		return "standard"
	case first == "capabilities" && below(second, "internal"), path == "capabilities":
		return "capabilities"
	case first == "capabilities" && second == "capabilitytest":
		return "capabilitytest"
	case first == "capabilities":
		return "capability " + second
	}
	return first
}

// mayImport says which areas an area may use, beside itself.
var mayImport = map[string][]string{
	"cmd":            {"executor", "brain", "standard", "capability ", "capabilities", "rpc", "protocol"},
	"examples":       {"executor", "brain", "standard", "capability ", "capabilities", "rpc", "protocol"},
	"executor":       {"capabilities", "rpc", "protocol"},
	"brain":          {"rpc", "protocol"},
	"standard":       {"capability ", "capabilities", "protocol"},
	"capability ":    {"capabilities", "protocol"},
	"capabilitytest": {"capabilities", "protocol"},
	"capabilities":   {"protocol"},
	"rpc":            {"protocol"},
	"protocol":       {},
}

// parts is where those of the executor's program are, and partsUse which of the others each may use.
const parts = "cmd/executor/internal/"

var partsUse = map[string][]string{
	"config":            {},
	"config/configtest": {"config"},
	"control":           {},
	"doctor":            {},
	"host":              {"config"},
	"metrics":           {"control"},
	"oversight":         {"config", "control"},
	"service":           {"config", "control", "doctor"},
	"agent":             {"config", "doctor", "host", "oversight"},
}

// Imports go one way.
func TestImports(t *testing.T) {
	all := listed(t)
	require.Greater(t, len(all), 10)
	for _, p := range all {
		from := area(p.path)
		kind := from
		if strings.HasPrefix(from, "capability ") {
			kind = "capability "
		}
		allowed, known := mayImport[kind]
		require.True(t, known, "%s is a new area: say in mayImport what it may use", p.path)
		for _, dep := range p.Deps {
			path, ours := strings.CutPrefix(dep, module)
			if !ours {
				continue
			}
			to := area(path)
			ok := to == from
			for _, a := range allowed {
				ok = ok || to == a || a == "capability " && strings.HasPrefix(to, a)
			}
			require.True(t, ok, "%s must not use %s", p.path, path)
		}
		part, isPart := strings.CutPrefix(p.path, parts)
		uses, known := partsUse[part]
		require.True(t, known || !isPart, "%s is a new part: say in partsUse what it may use", p.path)
		for _, dep := range p.Imports {
			if other, ok := strings.CutPrefix(dep, module+parts); ok && isPart {
				require.Contains(t, uses, other, "%s must not use %s", p.path, other)
			}
			if strings.HasPrefix(dep, "github.com/sourcegraph/jsonrpc2") || strings.HasPrefix(dep, "github.com/gorilla/websocket") {
				require.True(t, below(p.path, "protocol/rpc"), "%s must not import %s: only protocol/rpc does", p.path, dep)
			}
		}
	}
}

// sources calls f for each Go file of the module that is no test.
func sources(t *testing.T, f func(path string, text []byte)) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		f(rel, text)
		return err
	}))
}

// maySleep are the packages that wait for what the operating system tells nobody about:
// the end of another process's descendants, and of the moment in which it has our descriptors.
var maySleep = []string{"capabilities/internal/spawn", "capabilities/internal/atomicfile/busy_linux.go"}

// No file is long, nothing happens before main, and nothing is waited for by sleeping.
func TestFiles(t *testing.T) {
	n := 0
	sources(t, func(path string, text []byte) {
		n++
		require.LessOrEqual(t, bytes.Count(text, []byte("\n")), 600, "%s is too long: split it", path)
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		sleeps := below(filepath.ToSlash(path), maySleep...)
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				require.False(t, node.Name.Name == "init" && node.Recv == nil, "%s has an init function", path)
			case *ast.CallExpr:
				if s, ok := node.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
					x, _ := s.X.(*ast.Ident)
					require.False(t, x != nil && x.Name == "time" && !sleeps, "%s sleeps", path)
				}
			}
			return true
		})
	})
	require.Greater(t, n, 100)
}
