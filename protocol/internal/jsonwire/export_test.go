package jsonwire

import "reflect"

// ViaJSON lists the members below t that go through encoding/json.
func ViaJSON(t reflect.Type) []string { return viaJSONBelow(planOf(t), map[*plan]bool{}) }

func viaJSONBelow(p *plan, seen map[*plan]bool) (paths []string) {
	if seen[p] {
		return nil
	}
	seen[p] = true
	if p.enc == viaJSON || p.dec == viaJSON {
		return []string{""}
	}
	if p.elem != nil && p.enc != blob {
		paths = viaJSONBelow(p.elem, seen)
	}
	for _, f := range p.fields {
		for _, path := range viaJSONBelow(f.plan, seen) {
			paths = append(paths, "."+string(f.name)+path)
		}
	}
	return paths
}
