package main

import (
	"html/template"
	"net"
	"net/http"
	"time"
)

// The status page shows only what is no secret, and only to this machine: it asks
// for no token.

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>brain</title>
<style>body{font:15px system-ui,sans-serif;margin:2em;color:#222}td,th{text-align:left;padding:.3em 1.2em .3em 0;border-bottom:1px solid #ddd}.away{color:#999}</style></head>
<body><h1>brain</h1><p>Up for {{.Up}}. Executors: {{len .Executors}}.</p>
{{if .Executors}}<table><tr><th>Executor</th><th>Name</th><th>System</th><th>Version</th><th>State</th><th>Sessions</th><th>Tools</th></tr>
{{range .Executors}}<tr{{if not .Connected}} class="away"{{end}}><td>{{.ID}}</td><td>{{.Name}}</td><td>{{.OS}}/{{.Arch}}</td><td>{{.Version}}</td><td>{{if .Connected}}connected{{else}}away{{end}}</td><td>{{len .Sessions}}</td><td>{{range $i, $t := .Tools}}{{if $i}}, {{end}}{{$t}}{{end}}</td></tr>
{{end}}</table>{{else}}<p>Start one with <code>executor run</code>; the command stands in what brain serve printed.</p>{{end}}
</body></html>
`))

func (s *server) page(w http.ResponseWriter, r *http.Request) {
	if !local(r) {
		http.Error(w, "the status page is shown on the brain's own machine only", http.StatusForbidden)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = page.Execute(w, struct {
		Up        time.Duration
		Executors []executorInfo
	}{time.Since(s.started).Round(time.Second), s.executors()})
}

// local reports whether a request comes from this machine and means it: a page
// elsewhere that a browser here is shown must not read this one under its own name.
func local(r *http.Request) bool {
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !net.ParseIP(remote).IsLoopback() {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host == "localhost" || net.ParseIP(host) != nil
}
