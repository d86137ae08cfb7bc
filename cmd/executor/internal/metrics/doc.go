// Package metrics serves what there is to be counted and measured about a running executor over HTTP: /metrics in
// Prometheus's text format, /healthz and /readyz.
//
//	m, err := metrics.Listen(addr, log)
//	defer m.Close()
//	m.Prepare(&options)
//	m.Serve(status)
//
// metrics.go has the families and writes them, serve.go answers, usage_linux.go is what the process has used.
package metrics
