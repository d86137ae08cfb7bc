package capabilities

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agent-executor/executor/protocol"
)

// checkInput checks an input against its schema and returns it as encoding/json
// decodes it correctly: without members that are null or come again later, and
// with 3.0 written as 3. raw is not changed. JSON that is not valid passes, for
// encoding/json to say where.
func checkInput(root *node, raw json.RawMessage) (json.RawMessage, error) {
	if raw[0] != '{' {
		if raw[0] == '[' || raw[0] == '"' || json.Valid(raw) {
			return nil, invalid("input: want an object, got %s", came(raw))
		}
		return raw, nil
	}
	c := checks.Get().(*inputCheck)
	defer c.release()
	c.data = raw
	done := c.value(root)
	switch {
	case c.unknown != "":
		return nil, invalid("%s", c.unknown)
	case !done:
		return raw, nil // malformed
	case c.missing != "":
		return nil, invalid("%s", c.missing)
	case c.wrong != "":
		return nil, invalid("%s", c.wrong)
	}
	if len(c.edits) == 0 || !json.Valid(raw) { // an edit must not hide a fault
		return raw, nil
	}
	return c.edited(), nil
}

func invalid(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeInvalidParams, format, args...)
}

// inputCheck is one pass over an input. It finds the first problem of each kind,
// since an unknown member at the end matters more than a missing one before it:
// it is usually the same one, misspelt. It allocates nothing while all is well:
// its stacks are used again by the next one.
//
// Its methods return false when there is no use in going on: the JSON is not
// valid, or an unknown member was found. They find their way through JSON that is
// not valid without harm but do not find every fault in it; encoding/json does.
// They recurse as deep as the schema, not as the input.
type inputCheck struct {
	data    []byte
	pos     int
	path    []step
	members []member // of the objects that pos is in, a stack
	edits   []edit

	unknown, missing, wrong string
}

var checks = sync.Pool{New: func() any { return new(inputCheck) }}

// release keeps the stacks for the next input, unless they have grown much, and
// nothing of this one.
func (c *inputCheck) release() {
	clear(c.path[:cap(c.path)])
	clear(c.edits)
	*c = inputCheck{path: c.path[:0], members: c.members[:0], edits: c.edits[:0]}
	if cap(c.path)+cap(c.members)+cap(c.edits) < 1000 {
		checks.Put(c)
	}
}

// step is one element of the path to pos: a member's name or an index.
type step struct {
	name  []byte // raw, with its escapes; nil for an index
	index int
}

// member is where a known member of an object is.
type member struct {
	field      int
	start, end int // name to value
	comma      int // behind it; -1 = none
	drop       bool
}

// edit replaces data[start:end].
type edit struct {
	start, end int
	with       string
}

func (c *inputCheck) value(n *node) bool {
	if !c.space() {
		return false
	}
	ch := c.data[c.pos]
	switch {
	case n.kind == kindAny:
		return c.skip()
	case ch == 'n' && n.nullable:
		return c.skip()
	case ch == '{' && n.kind == kindObject:
		return c.object(n)
	case ch == '[' && n.kind == kindArray:
		return c.array(n)
	case (ch == 't' || ch == 'f') && n.kind == kindBoolean:
		return c.skip()
	case ch == '"' && n.kind == kindString:
		start := c.pos
		if !c.skipString() {
			return false
		}
		c.wholeCharacters(n, start)
		return true
	case isNumber(ch) && (n.kind == kindInteger || n.kind == kindNumber):
		start := c.pos
		return c.skip() && c.number(n, start)
	}
	start := c.pos
	if !c.skip() {
		return false
	}
	c.wrongf("want %s, got %s", n.kind, came(c.data[start:c.pos]))
	return true
}

func (c *inputCheck) object(n *node) bool {
	c.pos++ // {
	base := len(c.members)
	c.path = append(c.path, step{})
	if !c.space() {
		return false
	}
	for c.data[c.pos] != '}' {
		m := member{field: -1, comma: -1}
		if c.data[c.pos] != '"' {
			return false
		}
		m.start = c.pos
		if !c.skipString() {
			return false
		}
		name := c.data[m.start+1 : c.pos-1]
		c.path[len(c.path)-1].name = name
		child := n.rest
		if i, ok := n.lookup(name); ok {
			m.field, child = i, n.fields[i].node
		} else if n.closed {
			c.unknown = c.unknownMember(n)
			return false
		} else {
			c.wholeCharacters(n, m.start)
		}
		if !c.space() || c.data[c.pos] != ':' {
			return false
		}
		c.pos++
		if !c.space() {
			return false
		}
		if c.data[c.pos] == 'n' && m.field >= 0 && !n.fields[m.field].required && !child.nullable {
			m.drop = true
			if !c.skip() {
				return false
			}
		} else if !c.value(child) {
			return false
		}
		m.end = c.pos
		if !c.space() {
			return false
		}
		if c.data[c.pos] == ',' {
			m.comma = c.pos
			c.pos++
			if !c.space() || c.data[c.pos] == '}' {
				return false
			}
		} else if c.data[c.pos] != '}' {
			return false
		}
		if m.field >= 0 {
			c.lastWins(base, m.field)
		}
		if len(n.fields) > 0 {
			c.members = append(c.members, m)
		}
	}
	c.pos++ // }
	c.path = c.path[:len(c.path)-1]
	c.dropMembers(c.members[base:])
	c.requireMembers(n, c.members[base:])
	c.members = c.members[:base]
	return true
}

func (n *node) lookup(name []byte) (int, bool) {
	i, ok := n.byName[string(name)]
	if !ok && bytes.IndexByte(name, '\\') >= 0 {
		i, ok = n.byName[unescape(name)]
	}
	return i, ok
}

func unescape(name []byte) string {
	var s string
	if json.Unmarshal(slices.Concat([]byte{'"'}, name, []byte{'"'}), &s) != nil {
		return string(name)
	}
	return s
}

// lastWins drops the member of the object that has the same name as the one that
// was just read. encoding/json would merge the two when they are objects. The
// search goes back to the last one only, so that a thousand equal names do not
// cost a million steps.
func (c *inputCheck) lastWins(base, field int) {
	for i := len(c.members) - 1; i >= base; i-- {
		if c.members[i].field == field {
			c.members[i].drop = true
			return
		}
	}
}

// dropMembers notes the edits that take the dropped members out, and as many
// commas: the one behind each, or for those at the end the one before them.
func (c *inputCheck) dropMembers(members []member) {
	kept := -1
	for i, m := range members {
		if !m.drop {
			kept = i
			continue
		}
		c.edits = append(c.edits, edit{start: m.start, end: m.end})
		if m.comma >= 0 {
			c.edits = append(c.edits, edit{start: m.comma, end: m.comma + 1})
		}
	}
	if kept >= 0 && kept < len(members)-1 {
		comma := members[kept].comma
		c.edits = append(c.edits, edit{start: comma, end: comma + 1})
	}
}

func (c *inputCheck) requireMembers(n *node, members []member) {
	if c.missing != "" {
		return
	}
	var names []string
	for i := range n.fields {
		if f := &n.fields[i]; f.required && !slices.ContainsFunc(members, func(m member) bool { return m.field == i }) {
			names = append(names, c.where(f.name))
		}
	}
	if len(names) > 0 {
		c.missing = strings.Join(names, ", ") + ": required, but missing"
	}
}

func (c *inputCheck) array(n *node) bool {
	c.pos++ // [
	c.path = append(c.path, step{})
	if !c.space() {
		return false
	}
	count := 0
	for c.data[c.pos] != ']' {
		c.path[len(c.path)-1].index = count
		if !c.value(n.items) || !c.space() {
			return false
		}
		count++
		if c.data[c.pos] == ',' {
			c.pos++
			if !c.space() || c.data[c.pos] == ']' {
				return false
			}
		} else if c.data[c.pos] != ']' {
			return false
		}
	}
	c.pos++ // ]
	c.path = c.path[:len(c.path)-1]
	switch {
	case n.minItems != nil && count < *n.minItems:
		c.wrongf("want at least %d items, got %d", *n.minItems, count)
	case n.maxItems != nil && count > *n.maxItems:
		c.wrongf("want at most %d items, got %d", *n.maxItems, count)
	}
	return true
}

// number checks the number at data[start:pos].
func (c *inputCheck) number(n *node, start int) bool {
	text := c.data[start:c.pos]
	if n.kind == kindInteger && bytes.ContainsAny(text, ".eE") {
		// Exact only as far as a float64 counts; beyond that the value would change.
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			c.wrongf("want an integer, got %s", clip(text))
			return true
		}
		whole := strconv.FormatInt(int64(f), 10)
		c.edits = append(c.edits, edit{start: start, end: c.pos, with: whole})
		text = []byte(whole)
	}
	if n.kind == kindInteger && n.decoded && len(text) > 18 {
		var err error
		if n.min != nil && *n.min == 0 {
			_, err = strconv.ParseUint(string(text), 10, 64)
		} else {
			_, err = strconv.ParseInt(string(text), 10, 64)
		}
		if err != nil {
			c.wrongf("want an integer of 64 bits, got %s", clip(text))
			return true
		}
	}
	if n.min == nil && n.max == nil {
		return true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	switch {
	case err != nil: // out of range or not valid: left to encoding/json
	case n.min != nil && f < *n.min:
		c.wrongf("want at least %v, got %s", *n.min, clip(text))
	case n.max != nil && f > *n.max:
		c.wrongf("want at most %v, got %s", *n.max, clip(text))
	}
	return true
}

func (c *inputCheck) wrongf(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = c.where("") + ": " + fmt.Sprintf(format, args...)
	}
}

// edited applies the edits to a copy of the data.
func (c *inputCheck) edited() json.RawMessage {
	slices.SortFunc(c.edits, func(a, b edit) int { return a.start - b.start })
	out := make([]byte, 0, len(c.data))
	pos := 0
	for _, e := range c.edits {
		if e.start < pos {
			continue // inside a member that is dropped
		}
		out = append(out, c.data[pos:e.start]...)
		out = append(out, e.with...)
		pos = e.end
	}
	return append(out, c.data[pos:]...)
}
