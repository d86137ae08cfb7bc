package gateway

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// File names are bytes. In a URI those that are not UTF-8 are %XX, to the executor's tools
// they are said as bash writes them, $'caf\xe9.txt' (spec 14.14).

// saidPath is a path for a tool.
func saidPath(p string) string {
	if utf8.ValidString(p) {
		return p
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(p); {
		r, size := utf8.DecodeRuneInString(p[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x`)
			b.WriteByte("0123456789abcdef"[p[i]>>4])
			b.WriteByte("0123456789abcdef"[p[i]&15])
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteString(p[i : i+size])
		}
		i += size
	}
	b.WriteByte('\'')
	return b.String()
}

// heardPath is the path that a tool has said.
func heardPath(said string) string {
	if len(said) < 3 || !strings.HasPrefix(said, "$'") || !strings.HasSuffix(said, "'") {
		return said
	}
	in := said[2 : len(said)-1]
	var b strings.Builder
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' || i+1 == len(in) {
			b.WriteByte(in[i])
			continue
		}
		i++
		switch c := in[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'x':
			if i+2 < len(in) {
				b.WriteByte(hexDigit(in[i+1])<<4 | hexDigit(in[i+2]))
				i += 2
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func hexDigit(c byte) byte {
	return byte(max(0, strings.IndexByte("0123456789abcdef", c|0x20)))
}

// catArgv is the command that writes a file. Arguments are text: a name that is none is
// made from its bytes by printf; the x keeps a newline at its end.
func catArgv(p string) []string {
	if utf8.ValidString(p) {
		return []string{"cat", "--", p}
	}
	var b strings.Builder
	for _, c := range []byte(p) {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return []string{"sh", "-c", `p=$(printf "$1x") && exec cat -- "${p%x}"`, "sh", b.String()}
}

// localFile makes file://localhost/p, and file:/p, what they are the same as: file:///p.
// known are the hosts that are executors.
func localFile(uri string, known map[string]member) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && !strings.EqualFold(u.Host, "localhost") {
		return uri
	}
	if _, ours := known["file://"+u.Host+"/{+path}"]; ours && u.Host != "" {
		return uri // an executor of that name
	}
	u.Host, u.OmitHost = "", false
	return u.String()
}

// local has a file read under the one URI that it has, and gives it back under the one it
// was asked for.
func (c *client) local(uri string) (plain string, back func(mcp.Result)) {
	c.applying.Lock()
	plain = localFile(uri, c.places)
	c.applying.Unlock()
	return plain, func(result mcp.Result) {
		r, ok := result.(*mcp.ReadResourceResult)
		if !ok || r == nil {
			return
		}
		for _, one := range r.Contents {
			if one != nil && one.URI == plain {
				one.URI = uri
			}
		}
	}
}
